import type { ComponentChildren, JSX } from 'preact';
import { useRef } from 'preact/hooks';

/** Beside a table, of the row that is chosen there. Once it is closed the focus is on that row. */
export function Detail({
  onClose,
  children,
}: {
  readonly onClose: () => void;
  readonly children: ComponentChildren;
}): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const close = (): void => {
    const table = box.current?.parentElement?.querySelector(':scope > .table');
    const row = table?.querySelector<HTMLElement>('.scroller [role=row][tabindex="0"]');
    (row ?? table?.querySelector<HTMLElement>('.scroller'))?.focus();
    onClose();
  };
  return (
    <div class="detail" ref={box}>
      <button type="button" class="close" onClick={close}>
        Close
      </button>
      {children}
    </div>
  );
}

/** Where a table and what is chosen in it stand below each other, that may open out of sight: it is brought into it. */
export function showDetailOf(table: HTMLElement | null): void {
  const detail = table?.parentElement?.querySelector<HTMLElement>(':scope > .detail');
  if (!table || !detail) return;
  const [box, above] = [detail.getBoundingClientRect(), table.getBoundingClientRect()];
  if (box.top >= above.bottom) detail.scrollIntoView({ block: 'start' });
}
