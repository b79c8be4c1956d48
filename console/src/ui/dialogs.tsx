import { createContext, type ComponentChildren, type JSX } from 'preact';
import { useCallback, useContext, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { HoldContext, useDeeds } from '../deed';
import { useShown } from '../shown';
import { useModal } from './modal';
import { Name, typeable } from './name';
import { Command, Failure } from './parts';

/**
 * Over the page, until it is closed: by its buttons, or Escape unless it `stays`. While a deed of it is under way it is closed by nothing: that
 * would look as if the deed were called off, and what came of it would be seen by nobody.
 */
export function Dialog({
  title,
  stays = false,
  onClose,
  children,
}: {
  readonly title: string;
  /** What it shows is lost with it: Escape alone does not close it. */
  readonly stays?: boolean;
  readonly onClose: () => void;
  readonly children?: ComponentChildren;
}): JSX.Element {
  const underWay = useRef(0);
  const [isHeld, setHeld] = useState(false);
  const hold = useCallback((change: 1 | -1) => {
    underWay.current += change;
    setHeld(underWay.current > 0);
  }, []);
  const held = useMemo(() => ({ isHeld, hold }), [isHeld]);
  const modal = useModal(
    () => stays || underWay.current > 0 || onClose(),
    (dialog) => (underWay.current > 0 ? dialog.showModal() : onClose()),
  );
  return (
    <dialog
      {...modal}
      class="dialog"
      aria-label={title}
      // Of browsers that let a second Escape through.
      {...(stays || isHeld ? { closedby: 'none' } : {})}
    >
      <h2>
        <Name of={title} />
      </h2>
      <HoldContext.Provider value={held}>{children}</HoldContext.Provider>
      <div role="status">{isHeld && <p class="faint">It is under way. What comes of it is shown here.</p>}</div>
    </dialog>
  );
}

/** Closes the dialog that it is in, unless a deed is under way there. */
export const Cancel = ({
  autoFocus = false,
  onClick,
}: {
  readonly autoFocus?: boolean;
  readonly onClick: () => void;
}): JSX.Element => (
  <button type="button" autoFocus={autoFocus} disabled={useContext(HoldContext)?.isHeld === true} onClick={onClick}>
    Cancel
  </button>
);

/** At the end of a form: `deed` is done, or called off. */
export const FormButtons = ({
  deed,
  isHeld,
  onCancel,
}: {
  readonly deed: string;
  /** It is under way, or can't be done yet. */
  readonly isHeld: boolean;
  readonly onCancel: () => void;
}): JSX.Element => (
  <div class="buttons">
    <button type="submit" class="primary" disabled={isHeld}>
      {deed}
    </button>
    <Cancel onClick={onCancel} />
  </div>
);

interface Asked {
  /** What the button says. */
  readonly deed: string;
  readonly typed?: string;
  readonly onClose: () => void;
  /** What it gives, if a text, is told where the page was left meanwhile. */
  readonly run: () => Promise<unknown>;
  readonly children?: ComponentChildren;
}

/** Asks first. With `typed` the deed waits until exactly that has been typed: what it takes away comes back by nothing. */
export const Confirm = ({ title, ...asked }: Asked & { readonly title: string }): JSX.Element => (
  <Dialog title={title} onClose={asked.onClose}>
    <ConfirmForm {...asked} />
  </Dialog>
);

function ConfirmForm({ deed, typed, onClose, run, children }: Asked): JSX.Element {
  const [text, setText] = useState('');
  const { busy, error, run: act } = useDeeds();
  const isShown = useShown();
  const isWaited = typed !== undefined && text !== typed && text !== typeable(typed);
  const go = (event: Event): void => {
    event.preventDefault();
    act(deed, async () => {
      const told = await run();
      // Before it closes: who sees it close has not left the page.
      const isLeft = !isShown();
      onClose();
      return isLeft && typeof told === 'string' ? told : undefined;
    });
  };
  return (
    <form class="fields" onSubmit={go}>
      {children}
      {typed !== undefined && (
        <label>
          <span>
            Type <code class="typed">{typeable(typed)}</code> to go on
          </span>
          <input autoFocus autoComplete="off" value={text} onInput={({ currentTarget: { value } }) => setText(value)} />
        </label>
      )}
      {error !== undefined && <Failure error={error} />}
      <div class="buttons">
        <button type="submit" class="danger" disabled={busy !== undefined || isWaited}>
          {deed}
        </button>
        <Cancel autoFocus={typed === undefined} onClick={onClose} />
      </div>
    </form>
  );
}

/** A secret or a key as the service tells it once. */
export interface Secret {
  readonly title: string;
  readonly value: string;
  /** What went wrong beside it. */
  readonly notice?: ComponentChildren;
  readonly children?: ComponentChildren;
}

/** Takes a secret whose page was left before anybody said that it is kept. */
export const SecretsContext = createContext<((secret: Secret) => void) | undefined>(undefined);

/** It is nowhere to be read again: it stays until somebody has kept it, whatever page Back leads to. */
export function ShownOnce({ onClose, ...secret }: Secret & { readonly onClose: () => void }): JSX.Element {
  const { title, value, notice, children } = secret;
  const isKept = useRef(false);
  const hand = useContext(SecretsContext);
  useLayoutEffect(() => {
    const ask = (event: BeforeUnloadEvent): void => event.preventDefault();
    addEventListener('beforeunload', ask);
    return () => {
      removeEventListener('beforeunload', ask);
      if (!isKept.current) hand?.(secret);
    };
  }, []);
  const close = (): void => {
    isKept.current = true;
    onClose();
  };
  return (
    <Dialog title={title} stays onClose={onClose}>
      {notice}
      <p>{children} It is shown this once: keep it where your secrets are.</p>
      <Command text={value} />
      <div class="buttons">
        <button type="button" class="primary" onClick={close}>
          I have kept it
        </button>
      </div>
    </Dialog>
  );
}
