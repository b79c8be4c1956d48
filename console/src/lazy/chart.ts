// uPlot, in a file of its own: only pages with a chart fetch it.
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';

export interface ChartData {
  /** `time`: seconds since 1970. `names`: the places are 0, 1, 2 …, and `names` what stands there. */
  readonly kind: 'time' | 'number' | 'names';
  readonly x: readonly number[];
  readonly names?: readonly string[];
  /** The axis of values has zero on it, as it always has with names. */
  readonly fromZero?: true;
  readonly series: readonly { readonly name: string; readonly values: readonly (number | null)[] }[];
}

export interface Chart {
  close(): void;
}

/** As many of the colours of lines are told apart; further lines begin again with the first. */
const STROKES = ['--accent', '--good', '--bad', '--busy', '--faint'];

/** Fills `host`, follows its size, and takes the colours that it has when it is drawn. */
export function openChart(host: HTMLElement, { kind, x, names, series, fromZero }: ChartData): Chart {
  const style = getComputedStyle(host);
  // What light-dark() makes of a colour is only known of an element that has it.
  const probe = host.appendChild(document.createElement('i'));
  const colour = (name: string): string => {
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
  };
  const axis = {
    stroke: colour('--faint'),
    grid: { stroke: colour('--line'), width: 1 },
    font: `11px ${style.fontFamily}`,
  };
  const named = kind === 'names';
  const bars = uPlot.paths.bars?.({ size: [0.7, 60] });
  const sizeOf = (): { width: number; height: number } => ({
    width: Math.max(host.clientWidth, 200),
    // Below it the legend.
    height: Math.max(host.clientHeight - 40, 120),
  });
  const options: uPlot.Options = {
    ...sizeOf(),
    scales: {
      x: {
        time: kind === 'time',
        ...(named ? { range: [-0.6, x.length - 0.4] } : {}),
        // Around one time alone there would be years.
        ...(kind === 'time' && x.length === 1 ? { range: (_chart, least, most) => [least - 60, most + 60] } : {}),
      },
      ...(named || fromZero
        ? { y: { range: (_chart, least, most) => uPlot.rangeNum(Math.min(least, 0), Math.max(most, 0), 0.1, true) } }
        : {}),
    },
    axes: [
      {
        ...axis,
        ...(named
          ? {
              values: (_chart: uPlot, places: number[]) =>
                places.map((at) => (Number.isInteger(at) ? shortened(names?.[at] ?? '') : '')),
            }
          : {}),
      },
      { ...axis, size: 70 },
    ],
    series: [
      named ? { value: (_chart: uPlot, at: number | null) => (at === null ? '–' : (names?.[at] ?? '–')) } : {},
      ...series.map(({ name }, n) => {
        const stroke = colour(STROKES[n % STROKES.length] ?? '--accent');
        return {
          label: name,
          stroke,
          width: 1.5,
          ...(named && bars !== undefined ? { paths: bars, fill: stroke, points: { show: false } } : {}),
        };
      }),
    ],
  };
  probe.remove();
  const chart = new uPlot(options, [[...x], ...series.map(({ values }) => [...values])], host);
  const resized = new ResizeObserver(() => chart.setSize(sizeOf()));
  resized.observe(host);
  return {
    close() {
      resized.disconnect();
      chart.destroy();
    },
  };
}

const shortened = (name: string): string => (name.length > 14 ? `${name.slice(0, 13)}…` : name);
