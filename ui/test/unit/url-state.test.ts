import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  EMPTY_PANEL,
  queryLink,
  readState,
  stepOf,
  writeState,
  type PageState,
} from '../../src/url-state.ts';

test('an address without parameters is one empty panel, and the other way round', () => {
  assert.deepEqual(readState(''), { panels: [EMPTY_PANEL], refresh: 0 });
  assert.equal(writeState(readState('')), '');
});

test('every state survives the address', () => {
  const states: PageState[] = [
    { panels: [{ ...EMPTY_PANEL, expr: 'up{job=~"a|b"} + 1\n# ü & = ?' }], refresh: 15_000 },
    {
      panels: [
        { ...EMPTY_PANEL, expr: 'a', tab: 'table', moment: Date.UTC(2026, 1, 2, 3, 4, 5) },
        { ...EMPTY_PANEL, expr: 'b', range: 5_400_000, end: Date.UTC(2026, 1, 2, 3, 4, 5) },
        { ...EMPTY_PANEL, expr: 'c', stacked: true, resolution: { kind: 'step', ms: 15_000 } },
        { ...EMPTY_PANEL, expr: 'd', resolution: { kind: 'auto', density: 'high' } },
        { ...EMPTY_PANEL, expr: 'e', resolution: { kind: 'step', ms: 500 } },
        { ...EMPTY_PANEL, expr: 'f', series: { kind: 'only', ids: ['1abc', 'zz9'] } },
        { ...EMPTY_PANEL, expr: 'g', series: { kind: 'without', ids: ['0'] } },
        { ...EMPTY_PANEL, expr: 'h', series: { kind: 'only', ids: [] } },
        EMPTY_PANEL,
      ],
      refresh: 0,
    },
  ];
  for (const state of states) assert.deepEqual(readState(writeState(state)), state);
});

test('addresses of Prometheus 2 and 3 are understood', () => {
  const two = readState(
    'g0.expr=up&g0.tab=1&g0.stacked=1&g0.range_input=2h&g0.end_input=2026-02-02%2003%3A04&g0.step_input=30&g1.expr=x&g1.tab=0',
  );
  assert.equal(two.panels.length, 2);
  assert.deepEqual(two.panels[0], {
    ...EMPTY_PANEL,
    expr: 'up',
    tab: 'table',
    stacked: true,
    range: 7_200_000,
    end: Date.UTC(2026, 1, 2, 3, 4),
    resolution: { kind: 'step', ms: 30_000 },
  });
  const three = readState(
    'g0.expr=up&g0.tab=table&g0.display_mode=stacked&g0.res_type=fixed&g0.res_step=60&g0.show_exemplars=0&g1.expr=y&g1.tab=graph&g1.res_type=auto&g1.res_density=low&g1.display_mode=lines',
  );
  assert.deepEqual(
    three.panels.map((p) => [p.tab, p.stacked, p.resolution]),
    [
      ['table', true, { kind: 'step', ms: 60_000 }],
      ['graph', false, { kind: 'auto', density: 'low' }],
    ],
  );
});

test('broken parameters fall back to the default', () => {
  const state = readState(
    'g0.expr=up&g0.range_input=soon&g0.end_input=later&g0.tab=9&g0.res_type=fixed&g0.res_step=x&g0.res_density=no&g0.without=A-B..%3Cb%3E&refresh=often&gx.expr=1&g0=2&other=3',
  );
  assert.deepEqual(state, { panels: [{ ...EMPTY_PANEL, expr: 'up' }], refresh: 0 });
});

test('panels keep their order, also with gaps in the numbers', () => {
  const { panels } = readState('g10.expr=c&g2.expr=b&g0.expr=a');
  assert.deepEqual(
    panels.map((panel) => panel.expr),
    ['a', 'b', 'c'],
  );
});

test('steps and links', () => {
  assert.equal(stepOf(EMPTY_PANEL), 15_000);
  assert.equal(stepOf({ ...EMPTY_PANEL, resolution: { kind: 'step', ms: 700 } }), 700);
  const link = queryLink('{"a.b"}', 'table');
  assert.equal(readState(link.slice('query?'.length)).panels[0]?.expr, '{"a.b"}');
});
