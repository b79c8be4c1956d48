import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { JsonError, JsonReader, KnownKeys, scanJson, UNKNOWN_KEY } from '../../src/core/json-scanner.js';

const bytes = (text: string): Buffer => Buffer.from(text);
const accepts = (text: Buffer, maxDepth = 64): boolean => {
  try {
    scanJson(text, { maxDepth });
    return true;
  } catch (error) {
    assert.ok(error instanceof JsonError, String(error));
    return false;
  }
};
const parses = (text: string): boolean => {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
};
const refusal = (text: Buffer | string, maxDepth = 64): JsonError => {
  try {
    scanJson(Buffer.from(text as string), { maxDepth });
  } catch (error) {
    assert.ok(error instanceof JsonError, String(error));
    return error;
  }
  throw new assert.AssertionError({ message: `accepted ${text.toString()}` });
};

/** Text that is JSON, nearly JSON, or made of JSON's pieces. */
const jsonish = fc.oneof(
  fc.json({ maxDepth: 5 }),
  fc
    .array(
      fc.oneof(
        fc.constantFrom(
          '{',
          '}',
          '[',
          ']',
          ',',
          ':',
          '"',
          '\\',
          'true',
          'false',
          'null',
          ' ',
          '\n',
          '\t',
          '\r',
          '\v',
          '-',
          '0',
          '1',
          '.',
          'e',
          '+',
          'E5',
        ),
        fc.constantFrom(
          '"a"',
          '"\\n"',
          '"\\u0041"',
          '"\\x"',
          '"é😀"',
          '{"a":1',
          '[1',
          '-0',
          '1e5',
          '01',
          '1.',
          '\u0000',
          '\ufeff',
        ),
        fc.string({ unit: 'binary', maxLength: 2 }),
      ),
      { maxLength: 14 },
    )
    .map((parts) => parts.join('')),
  fc
    .tuple(fc.json({ maxDepth: 3 }), fc.nat(), fc.constantFrom('', '"', '}', ',', '\\', '1', '\n'))
    .map(([text, at, piece]) => {
      const cut = at % (text.length + 1);
      return text.slice(0, cut) + piece + text.slice(cut + 1);
    }),
);

describe('scanJson', () => {
  it('accepts what JSON.parse accepts, and nothing else', () => {
    fc.assert(
      fc.property(jsonish, (text) => {
        const lone = !text.isWellFormed() || (parses(text) && !JSON.stringify(JSON.parse(text)).isWellFormed());
        fc.pre(!lone && !/\\u[dD][89a-fA-F]/.test(text));
        assert.equal(accepts(bytes(text)), parses(text), JSON.stringify(text));
      }),
      { numRuns: 5000 },
    );
  });

  it('survives any bytes, and tells a place inside them', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 40 }), (raw) => {
        const text = Buffer.from(raw);
        if (accepts(text)) assert.ok(parses(text.toString()));
        else {
          const error = refusal(text);
          assert.ok(error.offset >= 0 && error.offset <= text.length);
        }
      }),
    );
  });

  it('refuses surrogates that are not a pair, escaped or raw, and says where', () => {
    assert.equal(refusal('{"a":"\\ud800"}').offset, 6);
    assert.match(refusal('["\\udc00\\ud800"]').message, /^lone surrogate in a string at byte 2 \(line 1, column 3\)$/);
    assert.equal(refusal('"\\ud83d\\u0041"').reason, 'lone surrogate in a string');
    assert.ok(accepts(bytes('["\\ud83d\\ude00","😀"]')));
    assert.equal(
      refusal(Buffer.from([0x22, 0xed, 0xa0, 0x80, 0x22])).message,
      'invalid UTF-8 at byte 1 (line 1, column 2)',
    );
  });

  it('finds the first byte that is not UTF-8, wherever it lies', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: 'binary', maxLength: 6 }),
        fc.integer({ min: 4080, max: 4110 }),
        fc.constantFrom(0x80, 0xff, 0xc0, 0xe2),
        (tail, at, bad) => {
          const prefix = Buffer.from('é'.repeat(at >> 1) + 'x'.repeat(at & 1));
          const text = Buffer.concat([prefix, Buffer.from([bad, 0x20]), Buffer.from(tail)]);
          assert.equal(refusal(text).offset, at);
        },
      ),
    );
  });

  it('counts the outermost container as the first level', () => {
    const nested = (depth: number): Buffer => bytes('[{"a":'.repeat(depth >> 1) + '[]' + '}]'.repeat(depth >> 1));
    assert.ok(accepts(nested(62), 63));
    assert.match(refusal(nested(62), 62).message, /^nested deeper than 62 levels at byte /);
    assert.ok(accepts(bytes('1'), 0));
    assert.equal(refusal('[]', 0).reason, 'nested deeper than 0 levels');
    assert.ok(!accepts(bytes('['.repeat(1 << 20))));
  });

  it('names line and column of a fault', () => {
    const { line, column, reason } = refusal('{\n  "a": 1,\n  "b": tru\n}');
    assert.deepEqual({ line, column, reason }, { line: 3, column: 11, reason: 'expected true' });
    assert.equal(refusal('').reason, 'unexpected end of text');
    assert.equal(refusal('\ufeff{}').reason, 'byte order mark before the text');
    assert.equal(refusal('{} x').message, 'unexpected text after the value at byte 3 (line 1, column 4)');
    assert.equal(refusal('{}\0').offset, 2);
  });
});

describe('JsonReader', () => {
  const KEYS = new KnownKeys(['data', 'events', '__proto__', 'é']);

  it('gives the members of an object as slices of what was sent', () => {
    const spaced = fc.constantFrom('', ' ', '\n\t', '\r\n ');
    const value = fc.oneof(
      fc.json({ maxDepth: 3 }),
      fc.constantFrom(
        '9007199254740993',
        '1.0',
        '-0',
        '1e400',
        '{"b":1,"a":1,"b":2}',
        '"\\u0041\\/"',
        '{"__proto__":{}}',
      ),
    );
    const name = fc.constantFrom('data', 'events', '__proto__', 'é', 'other', '');
    fc.assert(
      fc.property(fc.array(fc.tuple(name, value, fc.boolean()), { maxLength: 6 }), spaced, (members, space) => {
        const parts = members.map(([key, raw, escaped]) => {
          const quoted = escaped
            ? `"${[...key].map((c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`).join('')}"`
            : JSON.stringify(key);
          return space + quoted + space + ':' + space + raw + space;
        });
        const text = bytes(`${space}{${parts.join(',') || space}}${space}`);
        const reader = new JsonReader(text, { maxDepth: 64 });
        reader.enterObject();
        const read: [string | undefined, string][] = [];
        for (let key = reader.nextMember(KEYS); key !== undefined; key = reader.nextMember(KEYS)) {
          reader.skip();
          read.push([key === UNKNOWN_KEY ? undefined : key, text.toString('utf8', reader.start, reader.end)]);
        }
        reader.finish();
        assert.deepEqual(
          read,
          members.map(([key, raw]) => [KEYS.named(key), raw]),
        );
      }),
    );
  });

  it('unescapes strings as JSON.parse does', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), fc.boolean(), (value, ascii) => {
        const quoted = ascii
          ? `"${value.replace(/[^]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`)}"`
          : JSON.stringify(value);
        const reader = new JsonReader(bytes(quoted), { maxDepth: 1 });
        reader.skip();
        assert.equal(reader.kind, 'string');
        assert.equal(reader.string(), value);
      }),
    );
  });

  it('walks arrays, and holds to the grammar between the elements', () => {
    const elements = (text: string): string[] => {
      const reader = new JsonReader(bytes(text), { maxDepth: 2 });
      const found: string[] = [];
      reader.enterArray();
      while (reader.nextElement()) {
        reader.skip();
        found.push(text.slice(reader.start, reader.end));
      }
      reader.finish();
      return found;
    };
    assert.deepEqual(elements('[ 1 , {"a":[]},"x" ]'.replace('[]', '2')), ['1', '{"a":2}', '"x"']);
    assert.deepEqual(elements('[]'), []);
    for (const bad of ['[', '[1', '[1,', '[1,]', '[,1]', '[1 2]', '[1}', '[]]', '{}', '[[[]]]'])
      assert.throws(() => elements(bad), JsonError, bad);
  });
});
