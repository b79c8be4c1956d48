// uPlot, in a file of its own: only pages with a chart fetch it.
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';

export interface ChartData {
  /** `time`: seconds since 1970. `names`: the places are 0, 1, 2 …, and `names` what stands there. */
  readonly kind: 'time' | 'number' | 'names';
  readonly x: readonly number[];
  readonly names?: readonly string[];
  /** What stands at each place, exactly; unless given, it is made of `x`. */
  readonly texts?: readonly string[];
  /** That times are told in, by its IANA name; unless given, the viewer's. */
  readonly zone?: string;
  /** The axis of values has zero on it, as it always has with names. */
  readonly fromZero?: true;
  readonly series: readonly ChartSeries[];
}

export interface ChartSeries {
  readonly name: string;
  readonly values: readonly (number | null)[];
  /** The same, exactly. */
  readonly texts?: readonly (string | undefined)[];
}

export interface Chart {
  close(): void;
}

/** As many of the colours of lines are told apart; further lines begin again with the first. */
const STROKES = ['--accent', '--good', '--bad', '--busy', '--faint'];
const FONT_PX = 11;
/** Between the labels of an axis and what is beside them. */
const LABEL_ROOM_PX = 16;
const LEAST_AXIS_PX = 40;
const NOTHING = '–';

/** Fills `host`, follows its size, and is drawn again when the colours of the page are other ones. */
export function openChart(host: HTMLElement, data: ChartData): Chart {
  let chart = drawn(host, data);
  const again = (): void => {
    chart.destroy();
    chart = drawn(host, data);
  };
  const resized = new ResizeObserver(() => chart.setSize(sizeOf(host)));
  resized.observe(host);
  const chosen = new MutationObserver(again);
  chosen.observe(document.documentElement, { attributeFilter: ['data-theme'] });
  const system = matchMedia('(prefers-color-scheme: dark)');
  system.addEventListener('change', again);
  return {
    close() {
      resized.disconnect();
      chosen.disconnect();
      system.removeEventListener('change', again);
      chart.destroy();
    },
  };
}

const sizeOf = (host: HTMLElement): { readonly width: number; readonly height: number } => ({
  width: Math.max(host.clientWidth, 200),
  // Below it the legend.
  height: Math.max(host.clientHeight - 40, 120),
});

function drawn(host: HTMLElement, { kind, x, names, texts, zone, series, fromZero }: ChartData): uPlot {
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
    font: `${FONT_PX}px ${style.fontFamily}`,
  };
  const named = kind === 'names';
  const bars = uPlot.paths.bars?.({ size: [0.7, 60] });
  const exactX = (place: number | null | undefined): string => texts?.[place ?? -1] ?? NOTHING;
  const timeX = timeIn(zone);
  const options: uPlot.Options = {
    ...sizeOf(host),
    ...(zone === undefined ? {} : { tzDate: (seconds: number) => uPlot.tzDate(new Date(seconds * 1000), zone) }),
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
      // A label that is wider than its axis would lose its first digits, and tell another number.
      { ...axis, size: (shown: uPlot, values: string[] | null) => roomFor(shown.ctx, axis.font, values ?? []) },
    ],
    series: [
      {
        label:
          kind === 'time' && zone !== undefined ? `Time (${zone})` : named ? 'Value' : kind === 'time' ? 'Time' : 'At',
        value: (_chart: uPlot, at: number | null, _series: number, place: number | null) =>
          texts !== undefined
            ? exactX(place)
            : at === null
              ? NOTHING
              : named
                ? (names?.[at] ?? NOTHING)
                : kind === 'time'
                  ? timeX(at)
                  : String(at),
      },
      ...series.map(({ name, texts: exact }, n) => {
        const stroke = colour(STROKES[n % STROKES.length] ?? '--accent');
        return {
          label: name,
          stroke,
          width: 1.5,
          ...(exact !== undefined && {
            value: (_chart: uPlot, _at: number | null, _series: number, place: number | null) =>
              exact[place ?? -1] ?? NOTHING,
          }),
          ...(named && bars !== undefined ? { paths: bars, fill: stroke, points: { show: false } } : {}),
        };
      }),
    ],
  };
  probe.remove();
  return new uPlot(options, [[...x], ...series.map(({ values }) => [...values])], host);
}

/** Pixels of the page; what is measured is of the canvas, which may have more of them. */
function roomFor(context: CanvasRenderingContext2D, font: string, labels: readonly string[]): number {
  context.save();
  context.font = font;
  const widest = Math.max(0, ...labels.map((label) => context.measureText(label).width));
  context.restore();
  return Math.max(Math.ceil(widest) + LABEL_ROOM_PX, LEAST_AXIS_PX);
}

/** To the second, with the day. */
const timeIn = (zone: string | undefined): ((seconds: number) => string) => {
  const format = new Intl.DateTimeFormat('sv-SE', {
    dateStyle: 'short',
    timeStyle: 'medium',
    ...(zone !== undefined && { timeZone: zone }),
  });
  return (seconds) => format.format(new Date(seconds * 1000));
};

const shortened = (name: string): string => (name.length > 14 ? `${name.slice(0, 13)}…` : name);
