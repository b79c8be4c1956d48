using Statefold.Compiler;
using Statefold.Wire;

// Nested input recurses deeply in any compiler; Roslyn gives up in order while there is stack left to do it on.
const int StackBytes = 16 * 1024 * 1024;

var channel = HostConnection.Open();
var worker = new Thread(() => new CompileServer(channel, new ArtefactCompiler()).Serve(), StackBytes) { Name = "compile" };
worker.Start();
worker.Join();
