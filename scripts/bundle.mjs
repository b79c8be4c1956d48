// Puts each program together from the compiled modules and the packages that they use, into dist/program: what is read from a
// few files starts in half the time of what is looked for in fifteen hundred.
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { build } from 'esbuild';
import { ROOT } from './setup.mjs';

const compiled = (...path) => join(ROOT, 'dist', ...path);
const target = compiled('program');
/** Beside each other: they start each other by file name. The command line is imported by `scripts/statefold.mjs`. */
const PROGRAMS = [
  'src/main.js',
  'src/app/cli-tools.js',
  'src/snapshots/section-worker.js',
  'src/event-schemas/check-worker.js',
  'src/jail/fork-server-process.js',
  'src/read-store/embedded/engine-process.js',
  'src/read-store/embedded/query-process.js',
];
/** The image has no tests. */
const OF_TESTS = ['test/support/faulty-service.js'];
/**
 * They look for native parts around themselves, or are large and rarely used. What is imported when it is needed must be here: of a
 * package of CommonJS that is put into a bundle `import()` gives no names.
 */
const APART = ['lmdb', '@node-rs/crc32', 'chdb', 'archiver', 'pino-pretty', 're2js', 'undici', '@opentelemetry/*'];

const imported = (by, from) => new RegExp(`[/\\\\]node_modules[/\\\\](${by})[/\\\\]`).test(from);
const exported = (contents) => ({ contents, resolveDir: ROOT });

/** Of packages, what they read at their start, and the service at none: a megabyte and a half, a tenth of what a start takes. */
const withoutUnused = {
  name: 'without what is not used',
  setup({ onResolve, onLoad }) {
    const leave = (filter, by, namespace) =>
      onResolve({ filter }, ({ path, importer }) => (imported(by, importer) ? { path, namespace } : undefined));
    // Metrics ask for the interface of OpenTelemetry for exemplars, which are off: its forty files. The tracer has the real one.
    leave(/^@opentelemetry\/api$/, 'prom-client', 'nothing');
    onLoad({ filter: /./, namespace: 'nothing' }, () => exported('module.exports = {};'));
    // Words of zod's messages in fifty languages. It sets English by itself.
    leave(/locales\/index\.js$/, 'zod', 'no languages');
    onLoad({ filter: /./, namespace: 'no languages' }, () => exported('export {};'));
    // Readers of bodies with all encodings of the world, and types by the names of files, which express has for handlers that ask for them: ours do
    // not. Their functions read the package when they are first called.
    leave(/^(body-parser|mime-types)$/, 'express|send|accepts|type-is', 'late');
    onLoad({ filter: /./, namespace: 'late' }, ({ path }) =>
      exported(
        `module.exports = new Proxy({}, { get: (_, name) => (...given) => require(${JSON.stringify(path)})[name](...given) });`,
      ),
    );
    onResolve({ filter: /./, namespace: 'late' }, ({ path }) => ({ path, external: true }));
  },
};

const { metafile } = await build({
  entryPoints: [...PROGRAMS, ...OF_TESTS].map((path) => compiled(path)).filter((path) => existsSync(path)),
  outdir: target,
  entryNames: '[name]',
  bundle: true,
  splitting: true,
  platform: 'node',
  target: 'node20',
  // As one script of CommonJS, with the code that V8 keeps of such beside it, a start took 0.54 s of processors instead of 0.70, and an append
  // 11 to 18 % more: what modules share is variables of one function then, which are written once and never known to be constant.
  format: 'esm',
  external: APART,
  plugins: [withoutUnused],
  sourcemap: true,
  sourcesContent: false,
  // Names of classes and functions are kept as they are unless two are the same; `keepNames` would set each again, for every closure that
  // is made: a tenth of what an append costs. So nothing may rest on what a class is called.
  keepNames: false,
  metafile: true,
  logLevel: 'warning',
  // Packages of CommonJS ask for Node's own modules by it.
  banner: {
    js: "import { createRequire as requireFrom } from 'node:module';\nconst require = requireFrom(import.meta.url);",
  },
});

// Afterwards, and what the build before made stays: a service that runs of it reads a part when it first needs it.
const BUILT = join(target, 'built.json');
const made = Object.keys(metafile.outputs)
  .map((path) => basename(path))
  .sort();
const last = existsSync(BUILT) ? JSON.parse(readFileSync(BUILT, 'utf8')) : { made: [], before: [] };
const before = isDeepStrictEqual(last.made, made) ? last.before : last.made;
writeFileSync(BUILT, JSON.stringify({ made, before }));
const kept = new Set([...before, ...made, basename(BUILT)]);
for (const name of readdirSync(target)) if (!kept.has(name)) rmSync(join(target, name));
