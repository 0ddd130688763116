// A thousand series of 250 points. Counts are asserted: elements in the document, and that a move of the
// pointer never draws the series anew. Times depend on the machine: they are printed.
import assert from 'node:assert/strict';
import { graphDrawn, openPage, shoot } from '../browser.mjs';

const SERIES = 1000;
const POINTS = 250;

export const cases = [
  { name: 'a thousand series', run: thousand },
  { name: 'more series than can be told apart are drawn on demand', run: tooMany },
];

function answer(end, step) {
  const result = Array.from({ length: SERIES }, (_, n) => ({
    metric: { __name__: 'load', job: 'broker', queue: `queue-${n}`, vhost: `v${n % 7}` },
    values: Array.from({ length: POINTS }, (_, i) => [
      end - (POINTS - 1 - i) * step,
      String(n / 50 + 5 + 4 * Math.sin(i / 20 + n / 70)),
    ]),
  }));
  return JSON.stringify({ status: 'success', data: { resultType: 'matrix', result } });
}

async function thousand({ browser, url }) {
  const { page, faults, close } = await openPage(browser, url);
  // A fixed end gives every refresh the same answer, which is then made once.
  let body = null;
  await page.route('**/api/v1/query_range*', (route) => {
    const params = new URL(route.request().url()).searchParams;
    body ??= answer(Number(params.get('end')), Number(params.get('step')));
    return route.fulfill({ contentType: 'application/json', body });
  });
  await page.goto(`${url}/query?g0.expr=load&g0.range_input=1h&g0.end_input=2026-11-21%2012:00:00`);
  await graphDrawn(page);
  const measure = () =>
    page.evaluate(() => Math.round(performance.getEntriesByName('graph drawn')[0].duration));
  const first = await measure();
  // From the last byte of the answer to the drawn graph: parsing and shaping included.
  const whole = await page.evaluate(() => {
    const asked = performance
      .getEntriesByType('resource')
      .find((e) => e.name.includes('query_range'));
    const drawn = performance.getEntriesByName('graph drawn')[0];
    return Math.round(drawn.startTime + drawn.duration - asked.responseEnd);
  });
  const times = [];
  for (let turn = 0; turn < 5; turn += 1) {
    await page.evaluate(() => performance.clearMeasures());
    await page.getByRole('button', { name: 'Refresh', exact: true }).click();
    await page.waitForFunction(() => performance.getEntriesByName('graph drawn').length > 0);
    times.push(await measure());
  }
  times.sort((a, b) => a - b);
  const nodes = await page.evaluate(() => document.querySelectorAll('*').length);
  const over = await page.locator('.u-over').boundingBox();
  const { move, strokes } = await page.evaluate(async ({ x, y, width, height }) => {
    const target = document.querySelector('.u-over');
    const graph = document.querySelector('.u-wrap > canvas');
    const { stroke } = CanvasRenderingContext2D.prototype;
    const strokes = { graph: 0, overlay: 0 };
    CanvasRenderingContext2D.prototype.stroke = function (...args) {
      strokes[this.canvas === graph ? 'graph' : 'overlay'] += 1;
      return stroke.apply(this, args);
    };
    const costs = [];
    for (let step = 0; step < 60; step += 1) {
      const began = performance.now();
      target.dispatchEvent(
        new MouseEvent('mousemove', {
          bubbles: true,
          clientX: x + (width * step) / 60,
          clientY: y + height * (0.3 + (step % 10) / 25),
        }),
      );
      await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
      costs.push(performance.now() - began);
    }
    costs.sort((a, b) => a - b);
    CanvasRenderingContext2D.prototype.stroke = stroke;
    return { move: costs[Math.floor(costs.length / 2)], strokes };
  }, over);
  await shoot(page, 'thousand-light');
  await page.evaluate(() => performance.clearMeasures());
  await page.getByRole('button', { name: 'Stacked' }).click();
  await page.waitForFunction(() => performance.getEntriesByName('graph drawn').length > 0);
  const stacked = await measure();
  const median = times[2];
  assert.ok(nodes < 1500, `${nodes} elements in the document`);
  assert.equal(strokes.graph, 0, 'moving the pointer leaves the graph alone');
  assert.ok(strokes.overlay >= 30, `the series pointed at is drawn: ${strokes.overlay}`);
  assert.deepEqual(faults, []);
  await close();
  return `${whole} ms from answer to graph, ${first} ms of it drawing, then ${median} ms (median) on refresh, ${stacked} ms stacked; pointer to frame ${move.toFixed(1)} ms; ${nodes} elements`;
}

async function tooMany({ browser, url }) {
  const { page, faults, close } = await openPage(browser, url);
  await page.route('**/api/v1/query_range*', (route) => {
    const params = new URL(route.request().url()).searchParams;
    const [end, step] = ['end', 'step'].map((name) => Number(params.get(name)));
    const result = Array.from({ length: 3000 }, (_, n) => ({
      metric: { __name__: 'load', queue: `queue-${n}` },
      values: Array.from({ length: 20 }, (_, i) => [end - i * step, String(n + i)]),
    }));
    return route.fulfill({ json: { status: 'success', data: { resultType: 'matrix', result } } });
  });
  await page.goto(`${url}/query?g0.expr=load&g0.range_input=10m`);
  await graphDrawn(page);
  const notice = page.locator('.notice', { hasText: 'The graph shows the first' });
  assert.match(await notice.textContent(), /2\D000 of 3\D000/);
  await notice.getByRole('button', { name: 'Draw all' }).click();
  await notice.waitFor({ state: 'detached' });
  await page.getByRole('searchbox', { name: 'Filter series' }).fill('queue-2999');
  assert.equal(await page.locator('.legend-row').count(), 1);
  const nodes = await page.evaluate(() => document.querySelectorAll('*').length);
  assert.ok(nodes < 1500, `${nodes} elements`);
  assert.deepEqual(faults, []);
  await close();
}
