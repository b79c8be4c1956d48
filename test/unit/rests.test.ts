import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Rests } from '../../src/core/rests.js';

function world() {
  const loop = { idle: 0, active: 0 };
  const timers: { readonly ms: number; readonly work: () => void }[] = [];
  const rests = new Rests({ after: (ms, work) => void timers.push({ ms, work }), times: () => ({ ...loop }) });
  let begun = 0;
  return { loop, timers, begin: () => rests.before(() => begun++), begun: () => begun };
}

describe('rests of the event loop', () => {
  it('are as long as it was active since the last step, less what it was idle for', () => {
    const { loop, timers, begin, begun } = world();
    loop.active = 1000;
    begin();
    assert.equal(begun(), 1, 'the first one at once');
    loop.active += 3;
    loop.idle += 1;
    begin();
    assert.equal(begun(), 1);
    assert.deepEqual(
      timers.map(({ ms }) => ms),
      [2],
    );
    loop.idle += 2;
    timers.pop()?.work();
    assert.equal(begun(), 2);
    loop.active += 1;
    loop.idle += 2;
    begin();
    assert.equal(begun(), 3, 'it was idle enough');
    loop.active += 5;
    loop.idle += 2;
    begin();
    assert.equal(timers.pop()?.ms, 3, 'of what it was idle for before that nothing is left');
    begin();
    timers.pop()?.work();
    assert.equal(begun(), 4);
    loop.active += 0.4;
    begin();
    assert.equal(begun(), 5, 'too little for a timer');
  });

  it('are bounded, however full the loop is', () => {
    const { loop, timers, begin } = world();
    begin();
    loop.active += 1000;
    begin();
    assert.deepEqual(
      timers.map(({ ms }) => ms),
      [4],
    );
  });
});
