import type { JSX, RefObject } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';

interface Modal {
  readonly ref: RefObject<HTMLDialogElement>;
  readonly onCancel: (event: JSX.TargetedEvent<HTMLDialogElement>) => void;
}

/**
 * For a `dialog`, which opens over the page. Once it is gone the focus is where it was. `onEscape` takes it away, or leaves it. Some
 * browsers close it at a second Escape, whatever is said: then `onClosed` is told.
 */
export function useModal(onEscape: () => void, onClosed: (dialog: HTMLDialogElement) => void): Modal {
  const dialog = useRef<HTMLDialogElement>(null);
  const closed = useRef(onClosed);
  closed.current = onClosed;
  // Before the next key is pressed: it is the dialog's.
  useLayoutEffect(() => {
    const before = document.activeElement;
    const shown = dialog.current;
    const tell = (): void => {
      if (shown !== null) closed.current(shown);
    };
    shown?.showModal();
    shown?.addEventListener('close', tell);
    return () => {
      // It tells of its end later, when another one may be open.
      shown?.removeEventListener('close', tell);
      // While it is open all else is inert, and takes no focus.
      shown?.close();
      if (before instanceof HTMLElement && before !== document.body && before.isConnected) before.focus();
      else document.querySelector<HTMLElement>('main')?.focus();
    };
  }, []);
  const onCancel = (event: JSX.TargetedEvent<HTMLDialogElement>): void => {
    // Rather than when the browser has closed it: a key that opens another one may come before.
    event.preventDefault();
    onEscape();
  };
  return { ref: dialog, onCancel };
}
