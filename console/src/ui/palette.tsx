import type { JSX } from 'preact';
import { useLayoutEffect, useState } from 'preact/hooks';
import { useLoad } from '../load';
import type { NamedObject } from '../objects';
import { useModal } from './modal';
import { Name } from './name';

export interface Deed {
  readonly name: string;
  /** Keys that do it without the palette. */
  readonly keys?: string;
  readonly run: () => void;
}

const MOST_OBJECTS = 20;

/**
 * All that can be done from anywhere, and all objects that have a page, by a few letters of their names; what names nothing can be opened
 * as an aggregate's id.
 */
export function Palette({
  deeds,
  objects,
  onObject,
  onClose,
  onId,
}: {
  readonly deeds: readonly Deed[];
  /** Asked for when it opens. */
  readonly objects: (signal: AbortSignal) => Promise<readonly NamedObject[]>;
  readonly onObject: (path: string) => void;
  readonly onClose: () => void;
  readonly onId: ((id: string) => void) | undefined;
}): JSX.Element {
  const modal = useModal(onClose, onClose);
  const [text, setText] = useState('');
  const [at, setAt] = useState(0);
  const known = useLoad(objects, []);
  const wanted = text.trim().toLowerCase();
  const isWanted = (name: string): boolean => name.toLowerCase().includes(wanted);
  const found: (Deed & { readonly kind?: string })[] = deeds.filter(({ name }) => isWanted(name));
  if (wanted !== '') {
    const named = (known.value ?? []).filter(({ kind, name }) => isWanted(`${kind} ${name}`));
    for (const { kind, name, path } of named.slice(0, MOST_OBJECTS))
      found.push({ kind, name, run: () => onObject(path) });
    // Ids may begin and end with spaces.
    if (onId)
      for (const id of new Set([text.trim(), text])) found.push({ name: `Open aggregate ${id}`, run: () => onId(id) });
  }
  const chosen = Math.min(at, found.length - 1);
  useLayoutEffect(() => document.getElementById(`deed-${chosen}`)?.scrollIntoView({ block: 'nearest' }), [chosen]);
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
        aria-label={`Find a command or an object${onId ? ", or give an aggregate's id" : ''}`}
        placeholder={`A command, a name${onId ? ", or an aggregate's id" : ''}`}
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
            key={`${index} ${deed.name}`}
            id={`deed-${index}`}
            role="option"
            aria-selected={index === chosen}
            onClick={() => run(deed)}
          >
            <span>
              <Name of={deed.name} />
            </span>
            {deed.keys && <kbd>{deed.keys}</kbd>}
            {deed.kind !== undefined && <span class="faint">{deed.kind}</span>}
          </li>
        ))}
      </ul>
    </dialog>
  );
}
