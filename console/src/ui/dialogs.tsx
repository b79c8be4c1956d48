import type { ComponentChildren, JSX } from 'preact';
import { useState } from 'preact/hooks';
import { useDeeds } from '../deed';
import { useModal } from './modal';
import { Command, Failure } from './parts';

/** Over the page, until it is closed: by its buttons, or Escape unless it `stays`. */
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
  const modal = useModal(() => stays || onClose());
  return (
    <dialog
      {...modal}
      class="dialog"
      aria-label={title}
      // Of browsers that let a second Escape through.
      {...(stays ? { closedby: 'none' } : {})}
      onClose={onClose}
    >
      <h2>{title}</h2>
      {children}
    </dialog>
  );
}

/** Asks first. With `typed` the deed waits until exactly that has been typed: what it takes away comes back by nothing. */
export function Confirm({
  title,
  deed,
  typed,
  onClose,
  run,
  children,
}: {
  readonly title: string;
  /** What the button says. */
  readonly deed: string;
  readonly typed?: string;
  readonly onClose: () => void;
  readonly run: () => Promise<unknown>;
  readonly children?: ComponentChildren;
}): JSX.Element {
  const [text, setText] = useState('');
  const { busy, error, run: act } = useDeeds();
  const go = (event: Event): void => {
    event.preventDefault();
    act(deed, () => run().then(onClose));
  };
  return (
    <Dialog title={title} onClose={onClose}>
      <form class="fields" onSubmit={go}>
        {children}
        {typed !== undefined && (
          <label>
            <span>
              Type <code>{typed}</code> to go on
            </span>
            <input
              autoFocus
              autoComplete="off"
              value={text}
              onInput={({ currentTarget: { value } }) => setText(value)}
            />
          </label>
        )}
        {error !== undefined && <Failure error={error} />}
        <div class="buttons">
          <button type="submit" class="danger" disabled={busy !== undefined || (typed !== undefined && text !== typed)}>
            {deed}
          </button>
          <button type="button" autoFocus={typed === undefined} onClick={onClose}>
            Cancel
          </button>
        </div>
      </form>
    </Dialog>
  );
}

/** A secret or a key as the service tells it once: it is nowhere to be read again. */
export const ShownOnce = ({
  title,
  value,
  onClose,
  notice,
  children,
}: {
  readonly title: string;
  readonly value: string;
  readonly onClose: () => void;
  /** What went wrong beside it. */
  readonly notice?: ComponentChildren;
  readonly children?: ComponentChildren;
}): JSX.Element => (
  <Dialog title={title} stays onClose={onClose}>
    {notice}
    <p>{children} It is shown this once: keep it where your secrets are.</p>
    <Command text={value} />
    <div class="buttons">
      <button type="button" class="primary" onClick={onClose}>
        I have kept it
      </button>
    </div>
  </Dialog>
);
