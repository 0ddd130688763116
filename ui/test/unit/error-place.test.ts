import assert from 'node:assert/strict';
import { test } from 'node:test';
import { errorPlace, offsetOf, tokenAt } from '../../src/query/error-place.ts';

test('places are found in messages with and without words before them', () => {
  assert.deepEqual(
    errorPlace('invalid parameter "query": 1:4: parse error: unexpected end of input'),
    { line: 1, column: 4, text: 'unexpected end of input' },
  );
  assert.deepEqual(errorPlace('2:10: parse error: bad\nmore'), {
    line: 2,
    column: 10,
    text: 'bad\nmore',
  });
  assert.equal(errorPlace('query timed out in expression evaluation'), null);
  assert.equal(errorPlace('dial 127.0.0.1:9090: refused'), null);
});

test('columns count bytes, offsets count what the editor counts', () => {
  const at = (source: string, line: number, column: number) =>
    offsetOf(source, { line, column, text: '' });
  assert.equal(at('up{', 1, 4), 3);
  assert.equal(at('a\nbcd', 2, 3), 4);
  assert.equal(at('{a="ü"} x', 1, 10), 8);
  assert.equal(at('"😀" x', 1, 7), 4);
  assert.equal(at('up', 9, 99), 2);
  assert.equal(at('up', 0, 0), 0);
});

test('what is marked is a word or one sign', () => {
  const cases: [string, number, string][] = [
    ['rate(up)', 5, 'up'],
    ['a:b.c + 1', 0, 'a:b.c'],
    ['up{', 2, '{'],
    ['up{', 3, ''],
    ['a\nb', 1, ''],
    ['"😀"', 1, '😀'],
  ];
  for (const [source, offset, token] of cases) assert.equal(tokenAt(source, offset), token);
});
