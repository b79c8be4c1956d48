// Counts the processor time that each job of a run takes with all the processes below it, services that were killed and what they
// had started among them. Looks at /proc now and then; where there is none, nothing is counted. Plain Node without packages.
import { readdirSync, readFileSync } from 'node:fs';
import { basename } from 'node:path';

/** The environment variable by which a child of this process tells the job that it is for. */
export const JOB = 'STATEFOLD_TEST_JOB';
const LOOK_MS = 500;
/** At so many looks a process is asked what it runs. */
const LOOKS = 4;
/** The unit of the times in /proc: USER_HZ, which is 100 on every Linux. */
const TICKS_PER_SECOND = 100;

/**
 * A process as it was seen last. `own` is what it took itself, `waited` what the children took that it has waited for, `before`
 * the same at the look before, and `known` the part of it that was counted for these children themselves; all in ticks.
 */
class Seen {
  own = 0;
  waited = 0;
  before = 0;
  known = 0;
  /** Its parent is gone, so that none of the run waits for it. */
  adopted = false;
  job;
  /** What runs in it, in a word; it may become another program after its start. */
  program;
  looks = 0;

  constructor(pid, began, parent) {
    this.pid = pid;
    this.began = began;
    this.parent = parent;
  }

  /** With the children that began and ended between two looks: they are in `waited` alone. */
  get total() {
    return this.own + Math.max(0, this.waited - this.known);
  }
}

export class ProcessorTime {
  #root = new Seen(process.pid, undefined, undefined);
  #alive = new Map();
  #ended = new Map();
  /** Each process that has ended: { job, program, ticks }. */
  #ran = [];
  #timer;

  start() {
    this.look();
    this.#timer = setInterval(() => this.look(), LOOK_MS).unref();
  }

  stop() {
    clearInterval(this.#timer);
    this.look();
  }

  /** Seconds of processor time of the job so far; undefined where nothing can be counted. */
  of(job) {
    let ticks = this.#ended.get(job);
    for (const seen of this.#alive.values()) if (jobOf(seen) === job) ticks = (ticks ?? 0) + seen.total;
    return ticks === undefined ? undefined : ticks / TICKS_PER_SECOND;
  }

  /** Seconds of all jobs, of what was started for none, and of this process. */
  get all() {
    let ticks = this.#root.own;
    for (const ended of this.#ended.values()) ticks += ended;
    for (const seen of this.#alive.values()) ticks += seen.total;
    return ticks / TICKS_PER_SECOND;
  }

  /** Process ids of what runs of the job, also of what its own process has left behind. */
  running(job) {
    this.look();
    return [...this.#alive.values()].filter((seen) => jobOf(seen) === job).map(({ pid }) => pid);
  }

  /**
   * Of each program whose processes have ended, those of the job or of all: how many were seen, and their seconds with those of what
   * they ran between two looks. The dearest first.
   */
  programs(job) {
    const sums = new Map();
    for (const ran of this.#ran) {
      if (job !== undefined && ran.job !== job) continue;
      const { starts, ticks } = sums.get(ran.program) ?? { starts: 0, ticks: 0 };
      sums.set(ran.program, { starts: starts + 1, ticks: ticks + ran.ticks });
    }
    return [...sums]
      .map(([program, { starts, ticks }]) => ({ program, starts, seconds: ticks / TICKS_PER_SECOND }))
      .sort((a, b) => b.seconds - a.seconds);
  }

  look() {
    const found = new Map();
    for (const name of listed()) {
      const stat = /^\d+$/.test(name) ? statOf(name) : undefined;
      if (stat !== undefined) found.set(stat.pid, stat);
    }
    const root = found.get(process.pid);
    if (root === undefined) return;
    const gone = [...this.#alive.values()].filter((seen) => found.get(seen.pid)?.began !== seen.began);
    for (const { pid } of gone) this.#alive.delete(pid);
    for (const pid of found.keys()) this.#find(pid, found);
    this.#note(this.#root, root);
    for (const seen of this.#alive.values()) this.#note(seen, found.get(seen.pid));
    this.#bury(gone);
  }

  /** The process, when it is this one or below it; else undefined. */
  #find(pid, found) {
    if (pid === process.pid) return this.#root;
    const known = this.#alive.get(pid);
    const stat = found.get(pid);
    if (known !== undefined || stat === undefined || stat.parent === 0) return known;
    const parent = this.#find(stat.parent, found);
    if (parent === undefined) return undefined;
    const seen = new Seen(pid, stat.began, parent);
    this.#alive.set(pid, seen);
    return seen;
  }

  #note(seen, { own, waited, parent }) {
    seen.own = own;
    seen.before = seen.waited;
    seen.waited = waited;
    seen.adopted = seen.parent !== undefined && parent !== seen.parent.pid;
    if (seen.parent === this.#root) seen.job ??= toldBy(seen.pid);
    if (seen.looks++ < LOOKS) seen.program = programOf(seen.pid) ?? seen.program;
  }

  #bury(gone) {
    const waiting = new Map();
    const depth = (seen) => (seen.parent === undefined ? 0 : 1 + depth(seen.parent));
    // Parents first: what ended with its parent was waited for by that one, or by nobody. Only the first shows above.
    for (const seen of gone.sort((a, b) => depth(a) - depth(b))) {
      this.#add(jobOf(seen), seen.total);
      this.#ran.push({ job: jobOf(seen), program: seen.program, ticks: seen.total });
      let above = seen.parent;
      while (above !== this.#root && this.#alive.get(above.pid) !== above) above = above.parent;
      const rest = waiting.get(above) ?? { ticks: above.waited - above.before, jobs: new Set() };
      waiting.set(above, rest);
      const took = seen.own + seen.waited;
      const direct = above === seen.parent && !seen.adopted;
      if (!direct && (seen.adopted || rest.ticks < took)) continue;
      rest.ticks -= took;
      rest.jobs.add(jobOf(seen));
      above.known += took;
    }
    // What a job's own process took since the last look is known by its end alone.
    const { ticks, jobs } = waiting.get(this.#root) ?? { ticks: 0, jobs: [] };
    for (const job of jobs) this.#add(job, Math.max(0, ticks) / jobs.size);
  }

  #add(job, ticks) {
    this.#ended.set(job, (this.#ended.get(job) ?? 0) + ticks);
  }
}

const jobOf = (seen) => seen.job ?? (seen.parent === undefined ? undefined : jobOf(seen.parent));

function listed() {
  try {
    return readdirSync('/proc');
  } catch {
    return [];
  }
}

function statOf(pid) {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // Behind the name, which may hold anything.
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
    const at = (index) => Number(fields[index]);
    return { pid: Number(pid), parent: at(1), own: at(11) + at(12), waited: at(13) + at(14), began: fields[19] };
  } catch {
    return undefined;
  }
}

/** Not what is only preloaded, which is a URL, nor what becomes another program. */
const isProgram = (word) => /\.(m?js|dll)$/.test(word) && !/^file:|Launcher\.dll$/.test(word);

/** The file of a script or an assembly, else the command. */
function programOf(pid) {
  try {
    const words = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').filter(Boolean);
    const [script = words[0]] = words.filter(isProgram);
    if (script === undefined) return undefined;
    // Chromium writes its command line anew, with spaces between the words.
    return /\.test\.js$|test-group\.mjs$/.test(script) ? 'test files' : basename(script.split(' --')[0]);
  } catch {
    return undefined;
  }
}

function toldBy(pid) {
  try {
    return readFileSync(`/proc/${pid}/environ`, 'latin1')
      .split('\0')
      .find((line) => line.startsWith(`${JOB}=`))
      ?.slice(JOB.length + 1);
  } catch {
    return undefined;
  }
}
