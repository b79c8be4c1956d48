import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { ProjectChange } from '../../src/code-host/code-host.js';
import type { StoredCommit } from '../../src/core/event.js';
import type { Input } from '../../src/feed/inputs.js';
import { Foresight } from '../../src/projections/foresight.js';
import { unitsOf } from '../../src/projections/projection-unit.js';

const commit = (offset: number, eventId: string): StoredCommit => ({
  ...{ offset, commandId: `c-${eventId}`, aggregateId: 'a-1', aggregateType: 'a', baseVersion: offset, timestamp: 1 },
  ...{ correlationId: undefined, causationId: undefined, metadata: undefined },
  events: [{ eventId, eventType: 'Done', data: Buffer.from('{}') }],
});
const input = (of: StoredCommit): Input => ({ kind: 'commit', commit: of });
const units = unitsOf('p', { revision: 1, artefactId: 'x', classNames: ['P'] });
const CHANGE: ProjectChange = { event: 0, unit: 0, key: 'k', outcome: 'changed', state: null };

/** A runner that answers when it is told to. */
function runner(): {
  readonly forgotten: string[];
  readonly forget: (id?: string) => void;
  readonly project: () => Promise<ProjectChange[]>;
  readonly answer: () => void;
  readonly fail: () => void;
} {
  const forgotten: string[] = [];
  let answer = (): void => undefined;
  let fail = (): void => undefined;
  return {
    forgotten,
    forget: (id = 'all') => void forgotten.push(id),
    project: () =>
      new Promise((resolve, reject) => {
        answer = () => resolve([CHANGE]);
        fail = () => reject(new Error('it ended'));
      }),
    answer: () => answer(),
    fail: () => fail(),
  };
}

describe('what is folded on the way into the log', () => {
  const [first, second] = [commit(7, 'e-1'), commit(8, 'e-2')];

  it('is taken when just these commits come, also with others behind them', async () => {
    const code = runner();
    const foresight = new Foresight(code);
    foresight.begin([first], units, code.project);
    assert.ok(foresight.pending);
    const claimed = await foresight.claim([input(commit(7, 'e-1')), input(second)], units);
    assert.deepEqual(claimed?.commits, [first]);
    code.answer();
    assert.deepEqual(await claimed.given, [CHANGE]);
    assert.deepEqual([foresight.pending, code.forgotten], [false, []]);
  });

  const others: readonly [string, readonly Input[], typeof units][] = [
    ['another commit is in its place', [input(commit(7, 'e-9'))], units],
    ['it landed elsewhere', [input(commit(9, 'e-1')), input(commit(10, 'e-2'))], units],
    ['only some of it came', [input(first)], units],
    [
      'a swap came first',
      [
        { kind: 'control', control: { kind: 'ProjectionDrop', value: { projectionId: 'p' } }, offset: 7 },
        input(second),
      ],
      units,
    ],
    [
      'other projections are live',
      [input(first), input(second)],
      unitsOf('p', { revision: 2, artefactId: 'y', classNames: ['P'] }),
    ],
  ];
  for (const [why, inputs, live] of others)
    it(`is forgotten when ${why}, once the runner has answered`, async () => {
      const code = runner();
      const foresight = new Foresight(code);
      foresight.begin([first, second], units, code.project);
      const claim = foresight.claim(inputs, live);
      await Promise.resolve();
      assert.deepEqual(code.forgotten, [], 'the batch may not have come to the runner yet');
      code.answer();
      assert.equal(await claim, undefined);
      assert.deepEqual(code.forgotten, ['p@1']);
    });

  it('is forgotten when the runner ended, too', async () => {
    const code = runner();
    const foresight = new Foresight(code);
    foresight.begin([first], units, code.project);
    const claim = foresight.claim([input(second)], units);
    code.fail();
    assert.equal(await claim, undefined);
    assert.deepEqual(code.forgotten, ['p@1']);
  });

  it('is one batch: a second one is not begun before the first was claimed', async () => {
    const code = runner();
    const foresight = new Foresight(code);
    foresight.begin([first], units, code.project);
    let asked = 0;
    foresight.begin([second], units, () => (asked++, code.project()));
    assert.equal(asked, 0);
    assert.deepEqual((await foresight.claim([input(first)], units))?.commits, [first]);
    assert.equal(await foresight.claim([input(second)], units), undefined);
  });
});
