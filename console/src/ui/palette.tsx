import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { useModal } from './modal';

export interface Deed {
  readonly name: string;
  /** Keys that do it without the palette. */
  readonly keys?: string;
  readonly run: () => void;
}

/** All that can be done from anywhere, by a few letters of its name; what names nothing can be opened as an aggregate's id. */
export function Palette({
  deeds,
  onClose,
  onId,
}: {
  readonly deeds: readonly Deed[];
  readonly onClose: () => void;
  readonly onId: ((id: string) => void) | undefined;
}): JSX.Element {
  const modal = useModal(onClose, onClose);
  const [text, setText] = useState('');
  const [at, setAt] = useState(0);
  const wanted = text.trim().toLowerCase();
  const found: Deed[] = deeds.filter(({ name }) => name.toLowerCase().includes(wanted));
  if (wanted !== '' && onId) found.push({ name: `Open aggregate ${text.trim()}`, run: () => onId(text.trim()) });
  const chosen = Math.min(at, found.length - 1);
  const run = (deed: Deed | undefined): void => {
    if (deed === undefined) return;
    onClose();
    deed.run();
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.key === 'ArrowDown') setAt(Math.min(chosen + 1, found.length - 1));
    else if (event.key === 'ArrowUp') setAt(Math.max(chosen - 1, 0));
    else if (event.key === 'Enter') run(found[chosen]);
    else return;
    event.preventDefault();
  };
  return (
    <dialog {...modal} class="palette" aria-label="Commands">
      <input
        autoFocus
        role="combobox"
        aria-expanded="true"
        aria-controls="deeds"
        aria-activedescendant={chosen < 0 ? undefined : `deed-${chosen}`}
        aria-label="Find a command, or give an aggregate's id"
        placeholder="A command, or an aggregate's id"
        value={text}
        onInput={({ currentTarget }) => {
          setText(currentTarget.value);
          setAt(0);
        }}
        onKeyDown={onKeyDown}
      />
      <ul id="deeds" role="listbox" aria-label="Commands">
        {found.map((deed, index) => (
          <li
            key={deed.name}
            id={`deed-${index}`}
            role="option"
            aria-selected={index === chosen}
            onClick={() => run(deed)}
          >
            <span>{deed.name}</span>
            {deed.keys && <kbd>{deed.keys}</kbd>}
          </li>
        ))}
      </ul>
    </dialog>
  );
}
