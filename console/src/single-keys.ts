import { useLayoutEffect } from 'preact/hooks';
import type { Deed } from './ui/palette';

const NAME = 'statefold.keys';

/** Keys without Ctrl do something: who speaks to the computer, or is apt to touch one, turns them off. */
export const singleKeys = (): boolean => localStorage.getItem(NAME) !== 'off';

export function setSingleKeys(on: boolean): boolean {
  if (on) localStorage.removeItem(NAME);
  else localStorage.setItem(NAME, 'off');
  return on;
}

/** Keys of the deeds, alone or one behind the other, and `/` for the page's search; not while something is written. */
export function useKeys(deeds: readonly Deed[], hasSearch: boolean, onPalette: () => void): void {
  // With what is drawn: the next key may come at once.
  useLayoutEffect(() => {
    let before = '';
    const onKeyDown = (event: KeyboardEvent): void => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 'k') {
        event.preventDefault();
        // A dialog that is open asks for an answer first.
        if (document.querySelector('dialog[open]') === null) onPalette();
        return;
      }
      // Within a shadow tree, where the editor is, too.
      const [target] = event.composedPath();
      const writes = target instanceof HTMLElement && target.matches('input, textarea, select, [contenteditable]');
      if (writes || event.ctrlKey || event.metaKey || event.altKey || document.querySelector('dialog[open]')) return;
      if (event.key === '/' && hasSearch) {
        const search = document.querySelector<HTMLInputElement>('input[type=search]');
        if (search !== null) event.preventDefault();
        search?.focus();
        return;
      }
      const deed =
        deeds.find(({ keys }) => keys === `${before} ${event.key}`) ?? deeds.find(({ keys }) => keys === event.key);
      before = deed === undefined ? event.key : '';
      deed?.run();
    };
    document.addEventListener('keydown', onKeyDown);
    return () => document.removeEventListener('keydown', onKeyDown);
  });
}
