import { createContext } from 'preact';

/** What became of something whose page is not shown any more. */
export interface Notice {
  /** What was asked for, in a word. */
  readonly of: string;
  readonly error?: unknown;
  readonly told?: string | undefined;
}

export interface Notices {
  readonly tell: (notice: Notice) => void;
}

/** Undefined where nobody is signed in. */
export const NoticesContext = createContext<Notices | undefined>(undefined);
