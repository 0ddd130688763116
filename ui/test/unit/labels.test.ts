import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  commonLabels,
  formatSeries,
  metricSelector,
  seriesId,
  seriesKey,
  type Labels,
} from '../../src/labels.ts';

test('series are written as selectors that can be queried', () => {
  const cases: [Labels, string][] = [
    [{ __name__: 'up', job: 'node' }, 'up{job="node"}'],
    [{ __name__: 'up' }, 'up'],
    [{}, '{}'],
    [{ job: 'a', a: 'b' }, '{a="b", job="a"}'],
    [{ __name__: 'job:rate:5m', x: '1' }, 'job:rate:5m{x="1"}'],
    [{ __name__: 'http.requests', 'status.code': '200' }, '{"http.requests", "status.code"="200"}'],
    [{ __name__: 'größe' }, '{"größe"}'],
    [{ a: 'quote " back \\ line\nend' }, '{a="quote \\" back \\\\ line\\nend"}'],
    [{ a: '<img src=x onerror=alert(1)>' }, '{a="<img src=x onerror=alert(1)>"}'],
    [{ __name__: 'say "hi"' }, '{"say \\"hi\\""}'],
    [{ __name__: '', a: '1' }, '{a="1"}'],
  ];
  for (const [labels, text] of cases) assert.equal(formatSeries(labels), text);
  assert.equal(metricSelector('a.b'), '{"a.b"}');
});

test('labels can be left out', () => {
  const labels = { __name__: 'up', job: 'node', instance: 'a' };
  assert.equal(formatSeries(labels, new Set(['job', '__name__'])), '{instance="a"}');
});

test('keys do not depend on the order of labels, and do not collide', () => {
  assert.equal(seriesKey({ a: '1', b: '2' }), seriesKey({ b: '2', a: '1' }));
  assert.notEqual(seriesKey({ a: '1', b: '2' }), seriesKey({ a: '1","b":"2' }));
  assert.notEqual(seriesKey({ a: 'b' }), seriesKey({ b: 'a' }));
});

test('ids of series are short, stable, and differ', () => {
  const ids = Array.from({ length: 5000 }, (_, n) => seriesId(seriesKey({ queue: `q${n}` })));
  assert.equal(new Set(ids).size, 5000);
  assert.ok(ids.every((id) => /^[0-9a-z]{1,7}$/.test(id)));
  assert.equal(seriesId(''), (0x811c9dc5).toString(36));
});

test('common labels are those of every series', () => {
  assert.deepEqual(
    commonLabels([
      { __name__: 'up', job: 'a', zone: 'x' },
      { __name__: 'up', job: 'b', zone: 'x' },
      { __name__: 'up', job: 'b' },
    ]),
    { __name__: 'up' },
  );
  assert.deepEqual(commonLabels([{ a: '1' }]), {});
  assert.deepEqual(commonLabels([]), {});
});
