/** The processes of the service, as this one knows them. */
export interface Processes {
  list(): readonly KnownProcess[];
  /** How this process does; `ProcessActivity` of the interface without its checks. */
  activity(): object;
  /** The same of another one that is listed, as JSON. @throws StatefoldError UNAVAILABLE when it does not answer */
  activityOf(url: string): Promise<Buffer>;
}

export interface KnownProcess {
  readonly url: string;
  /** It is this one. */
  readonly self?: true;
  /** Slots that it owns, keeps standbys of, and notifies of. */
  readonly owned: number;
  readonly standbys: number;
  readonly notified: number;
}
