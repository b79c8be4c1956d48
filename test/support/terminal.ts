// Terminals of a reader: each a bash that commands of a page are given to, with what they print.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { settingsReference } from '../../src/config/settings.js';
import { type Answer, answers, type Page, type Step } from './page.js';
import { until } from './service.js';

const COMMAND_MS = 180_000;
/** The first start installs and builds. */
const SERVES_MS = 600_000;
const ENDS_MS = 20_000;
/** What a page says comes a moment later. */
const SOON_MS = 30_000;
/** How a page names the service. It is where `npm start` serves unless PORT says otherwise. */
const SHOWN_URL = 'http://127.0.0.1:8080';
const SETTING_NAMES = settingsReference().map(({ env }) => env);

/** A reader waits for an answer; the machine of the tests may be busy with others. */
const PATIENCE = { FOLD_DEADLINE_MS: '30000' };

/** What a reader's shell has before the page: nothing of this project's, of npm's or of the run of tests. */
export function readersEnvironment(own: Readonly<Record<string, string>>): Record<string, string> {
  const foreign = (name: string): boolean =>
    /^(STATEFOLD_|KAFKA_|npm_(lifecycle|package|command|execpath|node_execpath|config_local_prefix|config_prefix)|INIT_CWD$|NODE_TEST_CONTEXT$|NODE_OPTIONS$)/.test(
      name,
    ) || SETTING_NAMES.includes(name);
  const inherited = Object.entries(process.env).filter(
    (entry): entry is [string, string] => entry[1] !== undefined && !foreign(entry[0]),
  );
  // npm puts the folders of the package that runs the tests in front.
  const path = (process.env['PATH'] ?? '').split(delimiter).filter((folder) => !folder.includes('node_modules'));
  return {
    ...Object.fromEntries(inherited),
    PATH: path.join(delimiter),
    TERM: 'dumb',
    npm_config_update_notifier: 'false',
    npm_config_loglevel: 'error',
    npm_config_prefer_offline: 'true',
    ...PATIENCE,
    ...own,
  };
}

export interface Printed {
  /** Both streams, as they came. */
  readonly text: string;
  /** Exit code of the last command. */
  readonly code: number;
}

/** A bash whose commands see what those before them left: variables, the folder, jobs. */
export class Terminal {
  readonly #child: ChildProcess;
  readonly #folder: string;
  #count = 0;
  #codes = '';

  /** @param cwd where it is opened @param profile what it begins with */
  constructor(cwd: string, env: Readonly<Record<string, string>>, profile = '') {
    this.#folder = mkdtempSync(join(tmpdir(), 'statefold-terminal-'));
    // A group of its own: closing it ends what was left running in it.
    this.#child = spawn('bash', ['--norc', '--noprofile'], {
      cwd,
      env,
      stdio: ['pipe', 'ignore', 'inherit', 'pipe', 'pipe'],
      detached: true,
    });
    // So does the end of this process, however it came: the fourth pipe's end tells.
    this.#child.stdin?.write('{ read -r _ <&4; kill -TERM 0; } </dev/null >/dev/null 2>&1 3>&- & disown; exec 4<&-\n');
    this.#child.stdin?.write(`${profile}\n`);
    (this.#child.stdio[3] as Readable).setEncoding('utf8').on('data', (text: string) => (this.#codes += text));
    (this.#child.stdin as Writable).on('error', () => undefined);
  }

  /** Gives it commands as they are. What they print is in `output` from then on. */
  #enter(commands: string): { readonly output: () => string; readonly code: () => number | undefined } {
    const at = this.#count++;
    const script = join(this.#folder, `${at}.sh`);
    const printed = join(this.#folder, `${at}.out`);
    writeFileSync(script, `${commands}\n`);
    writeFileSync(printed, '');
    this.#child.stdin?.write(`source '${script}' </dev/null >'${printed}' 2>&1 3>&-; printf '%s:%s\\n' ${at} $? >&3\n`);
    return {
      output: () => readFileSync(printed, 'utf8'),
      code: () => {
        const [, code] = new RegExp(`^${at}:(\\d+)$`, 'm').exec(this.#codes) ?? [];
        if (code !== undefined) return Number(code);
        return this.#child.exitCode === null && this.#child.signalCode === null
          ? undefined
          : (this.#child.exitCode ?? 1);
      },
    };
  }

  /** Runs commands to their end. @throws {Error} with what was printed, when they take too long */
  async run(commands: string): Promise<Printed> {
    const { output, code } = this.#enter(commands);
    await until(() => code() !== undefined, COMMAND_MS).catch(() => {
      throw new Error(`did not end within ${COMMAND_MS / 1000} s; it printed:\n${output()}`);
    });
    return { text: output(), code: code() ?? 1 };
  }

  /** Starts what goes on, and resolves once it has printed what shows that it serves. */
  async serve(commands: string, serves: (printed: string) => boolean): Promise<() => string> {
    const { output, code } = this.#enter(commands);
    await until(() => serves(output()) || code() !== undefined, SERVES_MS).catch(() => undefined);
    if (!serves(output()))
      throw new Error(
        `${code() === undefined ? `printed something else within ${SERVES_MS / 1000} s` : `ended with ${code()}`}:\n${output()}`,
      );
    return output;
  }

  /** Ends what runs in it, as closing the window after Ctrl-C would. Resolves with whether all ended by themselves in time. */
  async close(signal: NodeJS.Signals = 'SIGTERM'): Promise<boolean> {
    const group = -(this.#child.pid ?? 0);
    const closed =
      this.#child.exitCode !== null || this.#child.signalCode !== null ? Promise.resolve() : once(this.#child, 'close');
    send(group, signal);
    this.#child.stdin?.end();
    const inTime = await until(() => !runs(-group), ENDS_MS).then(
      () => true,
      () => false,
    );
    if (!inTime) send(group, 'SIGKILL');
    await closed;
    rmSync(this.#folder, { recursive: true, force: true });
    return inTime;
  }
}

function send(group: number, signal: NodeJS.Signals): void {
  try {
    process.kill(group, signal);
  } catch {
    // All of it has ended already.
  }
}

/** Whether a process of the group is neither gone nor a zombie, by /proc: who adopts an orphan may never ask for its exit code. */
function runs(group: number): boolean {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .some((pid) => {
      try {
        const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
        const [state, , of] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
        return Number(of) === group && state !== 'Z';
      } catch {
        return false;
      }
    });
}

/** Whether nobody listens on the port of the loopback address. */
export async function isFree(port: number): Promise<boolean> {
  const server = createServer();
  const free = await new Promise<boolean>((resolve) =>
    server.once('error', () => resolve(false)).listen(port, '127.0.0.1', () => resolve(true)),
  );
  if (free) await new Promise((resolve) => server.close(resolve));
  return free;
}

export interface ReaderOptions {
  /** The checkout that the page is read in. */
  readonly cwd: string;
  /** What the reader's terminals have besides, as the page presumes. */
  readonly env: Readonly<Record<string, string>>;
  /** `npx statefold` begins the command itself: npm takes three times as long to find it as it takes to run. */
  readonly withoutNpm?: boolean;
}

/** Does what a page says, in its order. */
export class Reader {
  readonly #options: ReaderOptions;
  readonly #open: Terminal[] = [];
  readonly #outputs: (() => string)[] = [];
  #main: Terminal | undefined;
  #served: (() => string) | undefined;

  constructor(options: ReaderOptions) {
    this.#options = options;
  }

  /** @throws {Error} with the line of the page, what it says and what happened, at the first difference */
  async walk(name: string, page: Page): Promise<void> {
    for (const step of page.steps) {
      try {
        await this.#take(step);
      } catch (error) {
        throw new Error(`${name}, line ${step.line}:\n${indent(step.text)}\n${(error as Error).message}`);
      }
    }
  }

  /** Ends what the page has started, the last first. Resolves with whether all of it ended when it was told to. */
  async close(): Promise<boolean> {
    let inTime = true;
    for (const terminal of this.#open.splice(0).reverse()) inTime = (await terminal.close()) && inTime;
    return inTime;
  }

  async #take(step: Step): Promise<void> {
    if (step.kind === 'file') {
      const path = join(this.#options.cwd, step.name);
      mkdirSync(join(path, '..'), { recursive: true });
      writeFileSync(path, step.text);
      return;
    }
    if (step.kind === 'serve') {
      const { answer } = step;
      if (answer === undefined)
        throw new Error('goes on in a terminal of its own, and the page does not show what it prints when it serves');
      this.#served = await this.#terminal().serve(this.#filled(step.text), (printed) =>
        answers(this.#located(answer), printed),
      );
      this.#outputs.unshift(this.#served);
      return;
    }
    const { answer } = step;
    if (step.kind === 'seen') {
      const output = this.#served ?? (() => '');
      await until(() => answers(this.#located(step.answer), output()), SOON_MS).catch(() => {
        throw new Error(`is not what the other terminal shows, which is:\n${indent(output())}`);
      });
      return;
    }
    this.#main ??= this.#terminal();
    const commands = step.kind === 'sql' ? `npx statefold sql ${quoted(step.text)}` : this.#filled(step.text);
    const exit = step.kind === 'sql' ? 0 : step.exit;
    const end = performance.now() + SOON_MS;
    for (;;) {
      const { text, code } = await this.#main.run(commands);
      const difference = this.#difference(answer, exit, text, code);
      if (difference === undefined) {
        this.#outputs.unshift(() => text);
        return;
      }
      if (!step.soon || performance.now() > end) throw new Error(difference);
    }
  }

  #difference(answer: Answer | undefined, exit: number, text: string, code: number): string | undefined {
    if (code !== exit) return `ended with ${code}, not ${exit}, and printed:\n${indent(text)}`;
    if (answer !== undefined)
      return answers(this.#located(answer), text)
        ? undefined
        : `shows:\n${indent(answer.text)}\nbut it printed:\n${indent(text)}`;
    return /"status":[45]\d\d\b/.test(text) ? `was refused, which the page does not say:\n${indent(text)}` : undefined;
  }

  #terminal(): Terminal {
    const { cwd, env, withoutNpm = false } = this.#options;
    const terminal = new Terminal(cwd, readersEnvironment(env), withoutNpm ? npxOf(cwd) : undefined);
    this.#open.push(terminal);
    return terminal;
  }

  /** Pages show the default address; the service that they are walked on has another. */
  #located(answer: Answer): Answer {
    const { STATEFOLD_URL, PORT } = this.#options.env;
    const url = STATEFOLD_URL ?? (PORT === undefined ? SHOWN_URL : `http://127.0.0.1:${PORT}`);
    return { ...answer, text: answer.text.replaceAll(SHOWN_URL, url) };
  }

  /** `NAME=begin…` is what the reader copies from what was printed before: an `export` of it, or the member that a comment names, or the last word with this beginning. */
  #filled(commands: string): string {
    const printed = this.#outputs.map((output) => output());
    const filled = commands.replace(
      /\b([A-Z_]+)=(\S*)…(?=\s|$)(?:(\s+# .*?\b(\w+) of the answer)?)/g,
      (_, name: string, begin: string, comment: string | undefined, member: string | undefined) => {
        const find = (pattern: RegExp): string | undefined =>
          printed.map((text) => pattern.exec(text)?.[1]).find((value) => value !== undefined);
        const value =
          member === undefined
            ? (find(new RegExp(`^\\s*export ${name}=(\\S+)`, 'm')) ??
              (begin === '' ? undefined : find(new RegExp(`(?<![\\w/])(${begin}[^\\s"',]+)`))))
            : find(new RegExp(`"${member}":\\s*"([^"]+)"`));
        if (value === undefined) throw new Error(`nothing that was printed says what ${name} is`);
        return `${name}=${value}${comment ?? ''}`;
      },
    );
    const open = filled.split('\n').find((line) => line.replace(/(^|\s)#.*$/, '').includes('…'));
    if (open !== undefined) throw new Error(`can't be run as it is written: ${open.trim()}`);
    return filled;
  }
}

const npxOf = (cwd: string): string =>
  `npx() { if [ "$1" = statefold ]; then shift; node ${quoted(join(cwd, 'scripts', 'statefold.mjs'))} "$@"; else command npx "$@"; fi; }; export -f npx`;
const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;
const indent = (text: string): string => text.trimEnd().replace(/^/gm, '    ');
