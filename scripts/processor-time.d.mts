/** The environment variable by which a child of this process tells the job that it is for. */
export const JOB: string;

/** Processor time of this process and of all below it, by job and by program, as far as /proc tells. */
export class ProcessorTime {
  /** Looks now and then, without keeping the process alive. */
  start(): void;
  stop(): void;
  look(): void;
  /** Seconds of the job so far; undefined where nothing was counted. */
  of(job: string): number | undefined;
  /** Seconds of all jobs, of what was started for none, and of this process. */
  get all(): number;
  /** Process ids of what runs of the job, also of what its own process has left behind. */
  running(job: string): number[];
  /** Of each program, the processes of the job, or of all jobs, that have ended: how many were seen, and their seconds. The dearest first. */
  programs(job?: string): { readonly program: string | undefined; readonly starts: number; readonly seconds: number }[];
}
