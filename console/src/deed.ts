import { createContext } from 'preact';
import { useContext, useRef, useState } from 'preact/hooks';
import { NoticesContext } from './notices';
import { useShown } from './shown';

export interface Deeds {
  /** What is under way, by its name. */
  readonly busy: string | undefined;
  readonly error: unknown;
  /** What the last one told. */
  readonly told: string | undefined;
  /**
   * Does nothing while another one is under way: a second click of a double one asks for nothing. What becomes of it once the page was left is
   * told over the page that is open then, unless it `changesNothing`.
   */
  readonly run: (
    name: string,
    deed: () => Promise<string | undefined | void>,
    options?: { readonly changesNothing?: boolean },
  ) => void;
}

/** Of what is around a form, as a dialog: it stays while something is under way in it. */
export interface Hold {
  readonly isHeld: boolean;
  /** By one more deed, or one less. */
  readonly hold: (change: 1 | -1) => void;
}

export const HoldContext = createContext<Hold | undefined>(undefined);

/** What the page's buttons have the service do: one at a time, and what became of the last one. */
export function useDeeds(): Deeds {
  const [state, setState] = useState<Omit<Deeds, 'run'>>({ busy: undefined, error: undefined, told: undefined });
  const isBusy = useRef(false);
  const isShown = useShown();
  const around = useContext(HoldContext);
  const notices = useContext(NoticesContext);
  const run: Deeds['run'] = (name, deed, { changesNothing = false } = {}) => {
    if (isBusy.current) return;
    isBusy.current = true;
    around?.hold(1);
    setState({ busy: name, error: undefined, told: undefined });
    const ended = (error: unknown, told: string | undefined): void => {
      if (isShown()) setState({ busy: undefined, error, told });
      else if (!changesNothing && (error !== undefined || told !== undefined)) notices?.tell({ of: name, error, told });
    };
    deed()
      .then(
        (told) => ended(undefined, told ?? undefined),
        (error: unknown) => ended(error, undefined),
      )
      .finally(() => {
        isBusy.current = false;
        around?.hold(-1);
      });
  };
  return { ...state, run };
}
