// Uploads that were compiled before two reducers of one type were refused may have several classes for a type.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { unambiguous, unboundTypes } from '../../src/deployments/binding-records.js';
import { resolveClass } from '../../src/deployments/reducer-choice.js';

const entry = (className: string, aggregateType: string) => ({
  className,
  stateTypeName: 'S',
  kind: 'reducer' as const,
  aggregateType,
});
const DISCOVERED = [entry('One', 'shared'), entry('Other', 'other'), entry('Two', 'shared')];

test('a type that several classes of a former upload are for is bound to none, until one is named', () => {
  assert.deepEqual(unambiguous(DISCOVERED), [['other', 'Other']]);
  const reducer = {
    tenantId: 't',
    reducerId: 'r',
    artefactId: 'r',
    status: 'compiled',
    createdAt: '',
    discovered: DISCOVERED,
  } as const;
  const unbound = unboundTypes({ get: () => undefined }, reducer);
  assert.deepEqual(
    unbound.map(({ aggregateType, classNames }) => [aggregateType, classNames]),
    [['shared', ['One', 'Two']]],
  );
  assert.match(unbound[0]?.reason ?? '', /PUT \/aggregate-types\/shared/);
  assert.throws(() => resolveClass(DISCOVERED, 'shared', undefined), { code: 'REDUCER_CLASS_AMBIGUOUS' });
  assert.equal(resolveClass(DISCOVERED, 'shared', 'Two'), 'Two');
  assert.equal(resolveClass(DISCOVERED, 'other', undefined), 'Other');
});
