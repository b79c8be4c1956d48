import {
  elementScroll,
  observeElementOffset,
  observeElementRect,
  Virtualizer,
  type VirtualizerOptions,
} from '@tanstack/virtual-core';
import type { ComponentChildren, JSX } from 'preact';
import { useLayoutEffect, useMemo, useReducer, useRef, useState } from 'preact/hooks';
import { showDetailOf } from './detail';
import { Name } from './name';
import { leavePlace, placeOf } from './places';

export interface RowsProps {
  readonly count: number;
  readonly label: string;
  /** Columns as CSS grid tracks; `heads` are their names. */
  readonly columns: string;
  readonly heads: readonly string[];
  /** Pixels; where the table is narrower it scrolls. */
  readonly minWidth?: number;
  readonly row: (index: number) => { readonly key: string | number; readonly cells: readonly ComponentChildren[] };
  readonly onSelect?: (index: number) => void;
  readonly selected?: (index: number) => boolean;
  /** The row that is brought into sight when it becomes another one. */
  readonly shows?: number | undefined;
  /** The last rows come into sight. */
  readonly onEnd?: () => void;
  /** These rows, and those between, are drawn from now on. */
  readonly onRange?: (first: number, last: number) => void;
}

const HEIGHT = 28;

/**
 * A table of any length: of its rows those in sight are in the document. Tab comes to one of its rows and leaves the table again; arrow keys,
 * Page Up and Down, Home and End go through them, Enter opens one.
 */
export function Rows({
  count,
  label,
  columns,
  heads,
  minWidth,
  row,
  onSelect,
  selected,
  shows,
  onEnd,
  onRange,
}: RowsProps): JSX.Element {
  const scroller = useRef<HTMLDivElement>(null);
  const table = useRef<HTMLDivElement>(null);
  const [, redraw] = useReducer((n: number) => n + 1, 0);
  /** Where the list was left, until so much of it is there. */
  const left = useRef(useMemo(() => placeOf(label), []));
  /** What a row opens is still to be brought into sight. */
  const isOpening = useRef(false);
  /** The row that Tab comes to. */
  const [current, setCurrent] = useState(0);
  /** A row that is to have the focus once it is drawn. */
  const next = useRef<number>();
  const options: VirtualizerOptions<HTMLDivElement, HTMLDivElement> = {
    count,
    getScrollElement: () => scroller.current,
    estimateSize: () => HEIGHT,
    overscan: 8,
    observeElementRect,
    observeElementOffset,
    scrollToFn: elementScroll,
    onChange: () => redraw(undefined),
  };
  const virtual = useMemo(() => new Virtualizer(options), []);
  virtual.setOptions(options);
  useLayoutEffect(() => virtual._didMount(), []);
  useLayoutEffect(() => virtual._willUpdate());
  useLayoutEffect(() => {
    if (shows !== undefined && shows >= 0 && shows < count) virtual.scrollToIndex(shows);
  }, [shows]);
  useLayoutEffect(() => {
    if (!isOpening.current) return;
    isOpening.current = false;
    showDetailOf(table.current);
  });
  useLayoutEffect(() => {
    const shown = scroller.current;
    if (shown === null || left.current === 0) return;
    if (virtual.getTotalSize() - shown.clientHeight >= left.current) {
      shown.scrollTop = left.current;
      left.current = 0;
    } else onEnd?.();
  }, [count]);
  useLayoutEffect(() => {
    // The address may be another one since, by what is chosen.
    if (left.current === 0 && scroller.current !== null) leavePlace(label, scroller.current.scrollTop);
  });
  const open = (index: number): void => {
    if (onSelect === undefined) return;
    isOpening.current = true;
    onSelect(index);
  };
  const width = minWidth === undefined ? {} : { minWidth: `${minWidth}px` };
  const shown = virtual.getVirtualItems();
  const last = shown.at(-1)?.index ?? -1;
  useLayoutEffect(() => {
    if (count > 0 && last >= count - 20) onEnd?.();
  }, [last, count]);
  const first = shown[0]?.index ?? 0;
  useLayoutEffect(() => {
    if (last >= 0) onRange?.(first, last);
  }, [first, last, count]);
  // As it is before the rows are drawn anew: one that is taken out takes the focus with it, and tells nobody.
  const hadFocus = scroller.current?.contains(document.activeElement) === true;
  const tabbed = shown.some(({ index }) => index === current) ? current : shown[0]?.index;
  useLayoutEffect(() => {
    const rowOf = (index: number | undefined): HTMLElement | null | undefined =>
      scroller.current?.querySelector<HTMLElement>(`[data-index="${index}"]`);
    const asked = next.current === undefined ? undefined : rowOf(next.current);
    if (asked) {
      next.current = undefined;
      asked.focus({ preventScroll: true });
      // The row that had the focus is not drawn any more: it stays in the table.
    } else if (hadFocus && document.activeElement === document.body) rowOf(tabbed)?.focus({ preventScroll: true });
  });
  const onKeyDown = (event: JSX.TargetedKeyboardEvent<HTMLDivElement>, index: number): void => {
    if (event.target !== event.currentTarget) return;
    if (event.key === 'Enter') open(index);
    const page = Math.max(Math.floor((scroller.current?.clientHeight ?? 0) / HEIGHT) - 1, 1);
    const steps: Readonly<Record<string, number>> = {
      ArrowDown: index + 1,
      ArrowUp: index - 1,
      PageDown: index + page,
      PageUp: index - page,
      Home: 0,
      End: count - 1,
    };
    const asked = steps[event.key];
    if (asked === undefined) return;
    event.preventDefault();
    const to = Math.min(Math.max(asked, 0), count - 1);
    if (to === index) return;
    next.current = to;
    setCurrent(to);
    virtual.scrollToIndex(to);
  };
  return (
    <div class="table" role="table" aria-label={label} aria-rowcount={count + 1} ref={table}>
      <div class="row head" role="row" style={{ ...width, gridTemplateColumns: columns }}>
        {heads.map((head, n) => (
          <span role="columnheader" key={n} title={head}>
            {head}
          </span>
        ))}
      </div>
      <div
        class="scroller"
        ref={scroller}
        role="rowgroup"
        tabIndex={onSelect ? -1 : 0}
        style={width}
        onScroll={({ currentTarget: { scrollTop } }) => leavePlace(label, scrollTop)}
      >
        <div class="sizer" role="presentation" style={{ height: `${virtual.getTotalSize()}px` }}>
          {shown.map(({ index, start }) => {
            const { key, cells } = row(index);
            const isSelected = selected?.(index) === true;
            return (
              <div
                key={key}
                class={`row${onSelect ? ' opens' : ''}${isSelected ? ' selected' : ''}`}
                role="row"
                aria-current={isSelected ? 'true' : undefined}
                aria-rowindex={index + 2}
                data-index={index}
                tabIndex={onSelect && index === tabbed ? 0 : -1}
                style={{ gridTemplateColumns: columns, transform: `translateY(${start}px)` }}
                onFocus={() => setCurrent(index)}
                onClick={({ target }) => {
                  // A link in it goes its own way, also into another tab.
                  if ((target as Element).closest('a, button') === null) open(index);
                }}
                onKeyDown={(event) => onKeyDown(event, index)}
              >
                {cells.map((cell, n) => (
                  <span role="cell" key={n}>
                    {typeof cell === 'string' ? <Name of={cell} /> : cell}
                  </span>
                ))}
              </div>
            );
          })}
        </div>
      </div>
    </div>
  );
}
