/** Numbers of several descending series in one descending order, each number once. No more of a series is asked for than is taken. */
export function* descendingOnce(...series: readonly Iterable<number>[]): Generator<number> {
  const heads = series.map((numbers) => numbers[Symbol.iterator]()).map((rest) => ({ rest, next: rest.next() }));
  try {
    for (let last: number | undefined; ;) {
      let highest: (typeof heads)[number] | undefined;
      for (const head of heads)
        if (head.next.done !== true && (highest === undefined || head.next.value > (highest.next.value as number)))
          highest = head;
      if (highest === undefined) return;
      const number = highest.next.value as number;
      highest.next = highest.rest.next();
      if (number !== last) yield number;
      last = number;
    }
  } finally {
    for (const { rest } of heads) rest.return?.();
  }
}
