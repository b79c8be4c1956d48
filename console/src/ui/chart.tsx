import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { Chart, ChartData } from '../lazy/chart';
import { Failure } from './parts';

/** A chart of a given height, which is fetched with the first one. What it shows must stand beside it as text or a table, too. */
export function ChartBox({ data, label }: { readonly data: ChartData; readonly label: string }): JSX.Element {
  const host = useRef<HTMLDivElement>(null);
  const [error, setError] = useState<unknown>();
  useEffect(() => {
    let chart: Chart | undefined;
    let isGone = false;
    import('../lazy/chart').then(({ openChart }) => {
      if (!isGone && host.current !== null) chart = openChart(host.current, data);
    }, setError);
    return () => {
      isGone = true;
      chart?.close();
    };
  }, [data]);
  if (error !== undefined) return <Failure error={error} />;
  return <div class="chart" ref={host} role="img" aria-label={label} />;
}
