namespace Statefold.Compiler.Determinism;

/// <summary>Why a piece of code can't be replayed, and what to write instead. Each has a section in <c>docs/reference/determinism.md</c>.</summary>
/// <param name="Reason">Goes on after the quoted piece of code.</param>
/// <param name="Instead">A sentence.</param>
internal sealed record Rule(string Code, bool IsError, string Reason, string Instead)
{
    public static readonly Rule Clock = Error("SF1001", "reads the clock, which is another when the events are folded again", "Use the Timestamp of the event");
    public static readonly Rule Randomness = Error("SF1002", "is random, so the same events would give another state", "Let the writer of the event draw the value and put it into the data, or seed new Random(…) from the event");
    public static readonly Rule NewId = Error("SF1003", "makes an id that is another each time the events are folded", "Take an id from the event: its data, its AggregateId, its Version");
    public static readonly Rule Files = Error("SF1004", "reaches for the file system, which is not part of the events", "Put what is needed into the data of events, or into the code");
    public static readonly Rule Console = Error("SF1005", "reads or writes a console, of which a fold has none", "Leave it out; what should be seen belongs into the state");
    public static readonly Rule Network = Error("SF1006", "reaches for the network, which answers otherwise when the events are folded again", "Do the call before the append and put its result into the data; react to changes through webhooks or streams");
    public static readonly Rule Processes = Error("SF1007", "looks at or starts processes, which are not part of the events", "Do it outside and append an event");
    public static readonly Rule Environment = Error("SF1008", "depends on the machine or process that it runs on", "Put what is needed into the data of events, or into the code as a constant");
    public static readonly Rule Threads = Error("SF1009", "runs code beside the fold, at a time of its own", "Do the work in line: a fold is one thread, and returns when it is done");
    public static readonly Rule Async = Error("SF1010", "waits for something other than the events", "Make the method synchronous");
    public static readonly Rule Locks = Warning("SF1011", "locks where there is nothing to wait for: folds of a tenant run one after the other", "Leave it out");
    public static readonly Rule Native = Error("SF1012", "goes past the managed runtime, where nothing can be known to be the same again", "Use safe C#");
    public static readonly Rule Loading = Error("SF1013", "loads or makes code at run time, which was not compiled with the upload", "Put the code into the upload and call it");
    public static readonly Rule Reflection = Error("SF1014", "calls through reflection, where these checks can't follow", "Call the member itself");
    public static readonly Rule StaticState = Error("SF1015", "is static and can change, so it is shared by all aggregates and lost with the process", "Keep it in the state that Apply returns, or make it const or static readonly");
    public static readonly Rule StaticContent = Error("SF1016", "changes what a static member holds, which is shared by all aggregates and lost with the process", "Keep it in the state that Apply returns");
    public static readonly Rule OwnState = Error("SF1017", "changes the reducer or projection itself, which is shared by all aggregates and lost with the process", "Keep it in the state that Apply returns");
    public static readonly Rule HashCode = Error("SF1018", "gives a number that is another in every process", "Compare the values themselves, or hash their bytes with SHA256.HashData");
    public static readonly Rule CultureFormat = Warning("SF1019", "reads or writes numbers and times by the culture of the process, which here is the invariant one and elsewhere need not be", "Pass CultureInfo.InvariantCulture");
    public static readonly Rule CultureText = Warning("SF1020", "compares or changes text by the culture of the process, which here is the invariant one and elsewhere need not be", "Pass a StringComparison (Ordinal), or use the Invariant method");
    public static readonly Rule Order = Warning("SF1021", "leaves an order that depends on how the collection came to be, which is lost when the state is read back", "Use SortedDictionary or SortedSet, or sort what you give out");

    public static readonly Rule Startup = Error("SF1022", "runs when the code is loaded, before there is an event", "Do it in Apply, or in the initializer of a static readonly member");

    public static readonly Rule Unlisted = Error("SF1023", "is not on the list of what a fold may use of .NET", "Write it with types that are on the list, or do it before the append and put the result into the event");

    public static readonly Rule HashOrder = Error("SF1024", "takes a collection in the order of hash codes, which is another in every process", "Sort it in the same expression (Order(StringComparer.Ordinal), OrderBy(entry => entry.Key, StringComparer.Ordinal)), or use SortedDictionary, SortedSet or List");

    // Of the same codes, where another sentence helps more.

    public static readonly Rule HashOrderOfTies = HashOrder with
    {
        Reason = "leaves what compares as equal in the order of hash codes, which is another in every process",
        Instead = "Sort by the key last: ThenBy(entry => entry.Key, StringComparer.Ordinal)",
    };

    public static readonly Rule Today = Clock with
    {
        Reason = "takes the date of today, or its year, where the text has none",
        Instead = "Use ParseExact with a constant format that has the year (\"O\", \"yyyy-MM-dd\"), or read the value with DataAs or GetDateTime, which take ISO 8601 alone",
    };

    /// <summary>What the text is nobody knows before it is read: most have a date, and the code is what many write.</summary>
    public static readonly Rule TodayPerhaps = CultureFormat with { Reason = Today.Reason, Instead = Today.Instead };

    public static readonly Rule Patience = Clock with
    {
        Reason = "gives up after a time, which is sooner or later on another machine",
        Instead = "Leave the timeout out: an event has a deadline anyway; RegexOptions.NonBacktracking is linear in the text",
    };

    public static readonly Rule Trees = Loading with
    {
        Reason = "makes a tree of code, which is put together and run at run time",
        Instead = "Take a delegate (Func<…>), and use the methods of Enumerable on the collection itself",
    };

    public static readonly Rule RunTimeType = Reflection with
    {
        Reason = "reads or writes JSON by a type that is known at run time only, where these checks can't follow",
        Instead = "Name the type: Deserialize<T>(…), Serialize<T>(…), or typeof(T)",
    };

    public static readonly Rule Stack = Environment with
    {
        Reason = "tells of the stack, which depends on what the runtime has compiled so far, or of the last error of the system",
        Instead = "Use the Message of the exception, and its type",
    };

    public static readonly Rule Hardware = Environment with
    {
        Reason = "is another on another processor",
        Instead = "Use the operation that is exact on all of them (1 / x, Math.Sqrt, a loop)",
    };

    public static readonly Rule FrameworkState = StaticContent with { Reason = "changes what all code of the process shares, and is lost with the process" };

    public static readonly Rule OrderOfTies = Order with
    {
        Reason = "leaves what compares as equal in the order of hash codes, which may be another in every process",
        Instead = "Sort last by something that no two of them share",
    };

    public static readonly Rule LeakedHash = HashCode with
    {
        Reason = "gives a number that is another in every process, and this GetHashCode() does more with it than return it",
        Instead = "Let GetHashCode() only combine and return hash codes (HashCode.Combine), and keep them nowhere",
    };

    public static readonly Rule Base = Unlisted with
    {
        Reason = "derives from or implements a type that a fold may not make its own kind of",
        Instead = "Use the type as it is, or hold an object of it in a class of yours; what may be derived from is on the second list",
    };

    private static readonly Rule[] Table =
    [
        Clock, Randomness, NewId, Files, Console, Network, Processes, Environment, Threads, Async, Locks, Native, Loading, Reflection,
        StaticState, StaticContent, OwnState, HashCode, CultureFormat, CultureText, Order, Startup, Unlisted, HashOrder,
    ];

    public static IReadOnlyList<Rule> All => Table;

    /// <param name="subject">The piece of code, as a reader knows it: <c>DateTime.UtcNow</c>.</param>
    public string Tell(string subject) => $"'{subject}' {Reason}. {Instead}. See docs/reference/determinism.md#{Code.ToLowerInvariant()}.";

    private static Rule Error(string code, string reason, string instead) => new(code, true, reason, instead);

    private static Rule Warning(string code, string reason, string instead) => new(code, false, reason, instead);
}
