import assert from 'node:assert/strict';
import test from 'node:test';
import { Rota } from '../../src/core/rota.js';

function filled(...items: readonly string[]): Rota<string> {
  const rota = new Rota<string>();
  for (const item of items) rota.push(item.charAt(0), item);
  return rota;
}

function drained(rota: Rota<string>): string[] {
  const all: string[] = [];
  for (let { first } = rota; first !== undefined; { first } = rota) {
    assert.equal(rota.shift(), first);
    all.push(first);
  }
  assert.equal(rota.length, 0);
  assert.equal(rota.shift(), undefined);
  return all;
}

test('one of each has its turn, in the order in which they came', () => {
  assert.deepEqual(drained(filled('a1', 'a2', 'a3', 'b1', 'c1', 'c2')), ['a1', 'b1', 'c1', 'a2', 'c2', 'a3']);
});

test('who comes stands behind who has waited', () => {
  const rota = filled('a1', 'a2', 'b1');
  assert.equal(rota.shift(), 'a1');
  rota.push('c', 'c1');
  assert.deepEqual(drained(rota), ['b1', 'a2', 'c1']);
});

test('what is taken out leaves the others in their order', () => {
  const rota = filled('a1', 'a2', 'b1', 'c1', 'c2');
  assert.deepEqual(
    rota.remove((item) => ['a1', 'b1', 'c2'].includes(item)),
    ['a1', 'b1', 'c2'],
  );
  assert.equal(rota.length, 2);
  assert.deepEqual(drained(rota), ['a2', 'c1']);
});

test('one that is put in stands before those of its own that it goes before, and nobody else', () => {
  const rota = filled('a1', 'a4', 'b2', 'b3');
  rota.insert('a', 'a3', (other) => other > 'a3');
  rota.insert('a', 'a9', (other) => other > 'a9');
  rota.insert('c', 'c1', () => true);
  assert.deepEqual(drained(rota), ['a1', 'b2', 'c1', 'a3', 'b3', 'a4', 'a9']);
});
