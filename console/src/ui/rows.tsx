import {
  elementScroll,
  observeElementOffset,
  observeElementRect,
  Virtualizer,
  type VirtualizerOptions,
} from '@tanstack/virtual-core';
import type { ComponentChildren, JSX } from 'preact';
import { useLayoutEffect, useMemo, useReducer, useRef } from 'preact/hooks';

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
  /** The last rows come into sight. */
  readonly onEnd?: () => void;
}

const HEIGHT = 28;

/** A table of any length: of its rows those in sight are in the document. Arrow keys go through them, Enter opens one. */
export function Rows({
  count,
  label,
  columns,
  heads,
  minWidth,
  row,
  onSelect,
  selected,
  onEnd,
}: RowsProps): JSX.Element {
  const scroller = useRef<HTMLDivElement>(null);
  const [, redraw] = useReducer((n: number) => n + 1, 0);
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
  const width = minWidth === undefined ? {} : { minWidth: `${minWidth}px` };
  const shown = virtual.getVirtualItems();
  const last = shown.at(-1)?.index ?? -1;
  useLayoutEffect(() => {
    if (count > 0 && last >= count - 20) onEnd?.();
  }, [last, count]);
  const onKeyDown = (event: JSX.TargetedKeyboardEvent<HTMLDivElement>, index: number): void => {
    const to = event.key === 'ArrowDown' ? index + 1 : event.key === 'ArrowUp' ? index - 1 : undefined;
    if (event.key === 'Enter') onSelect?.(index);
    if (to === undefined || to < 0 || to >= count) return;
    event.preventDefault();
    virtual.scrollToIndex(to);
    requestAnimationFrame(() => scroller.current?.querySelector<HTMLElement>(`[data-index="${to}"]`)?.focus());
  };
  return (
    <div class="table" role="table" aria-label={label} aria-rowcount={count + 1}>
      <div class="row head" role="row" style={{ ...width, gridTemplateColumns: columns }}>
        {heads.map((head, n) => (
          <span role="columnheader" key={n} title={head}>
            {head}
          </span>
        ))}
      </div>
      <div class="scroller" ref={scroller} role="rowgroup" tabIndex={0} style={width}>
        <div class="sizer" role="presentation" style={{ height: `${virtual.getTotalSize()}px` }}>
          {shown.map(({ index, start }) => {
            const { key, cells } = row(index);
            return (
              <div
                key={key}
                class={`row${onSelect ? ' opens' : ''}${selected?.(index) ? ' selected' : ''}`}
                role="row"
                aria-rowindex={index + 2}
                data-index={index}
                tabIndex={onSelect ? 0 : -1}
                style={{ gridTemplateColumns: columns, transform: `translateY(${start}px)` }}
                onClick={() => onSelect?.(index)}
                onKeyDown={(event) => onKeyDown(event, index)}
              >
                {cells.map((cell, n) => (
                  <span role="cell" key={n}>
                    {cell}
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
