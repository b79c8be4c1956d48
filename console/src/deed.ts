import { useRef, useState } from 'preact/hooks';

export interface Deeds {
  /** What is under way, by its name. */
  readonly busy: string | undefined;
  readonly error: unknown;
  /** What the last one told. */
  readonly told: string | undefined;
  /** Does nothing while another one is under way: a second click of a double one asks for nothing. */
  readonly run: (name: string, deed: () => Promise<string | undefined | void>) => void;
}

/** What the page's buttons have the service do: one at a time, and what became of the last one. */
export function useDeeds(): Deeds {
  const [state, setState] = useState<Omit<Deeds, 'run'>>({ busy: undefined, error: undefined, told: undefined });
  const isBusy = useRef(false);
  const run = (name: string, deed: () => Promise<string | undefined | void>): void => {
    if (isBusy.current) return;
    isBusy.current = true;
    setState({ busy: name, error: undefined, told: undefined });
    deed()
      .then(
        (told) => setState({ busy: undefined, error: undefined, told: told ?? undefined }),
        (error: unknown) => setState({ busy: undefined, error, told: undefined }),
      )
      .finally(() => (isBusy.current = false));
  };
  return { ...state, run };
}
