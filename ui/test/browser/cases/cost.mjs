// The page of costs, with answers whose figures are known: rates, stages, flame graphs, what goes wrong.
import assert from 'node:assert/strict';
import { answerCosts, costAfter, profileOf, SINCE } from '../cost-answers.mjs';
import { flameDrawn, openPage, paramsWhen, seriesDrawn, shoot } from '../browser.mjs';

export const cases = [
  { name: 'cost: of the server itself, with its history and its flame graphs', run: live },
  { name: 'cost: figures, stages and targets, sorted by a click', run: overview },
  { name: 'cost: history by stage, zoomed, and rates at once from the own metrics', run: history },
  { name: 'cost: a stage leads to its flame graph and heap profile, and back', run: stage },
  { name: 'cost: zoom, way back, pointer and keys in the flame graph', run: zoom },
  { name: 'cost: on a touch screen a tap tells and a second zooms', run: touch },
  { name: 'cost: search marks calls and narrows the table', run: search },
  { name: 'cost: collecting shows how far it is and can be cancelled', run: collect },
  { name: 'cost: ten thousand calls are drawn by what can be seen of them', run: large },
  { name: 'cost: hostile names stay text', run: hostile },
  { name: 'cost: what is switched off says how to switch it on', run: off },
];

const ROW = 19;

/** Nothing is made up here: the server under test tells of itself, which it scrapes. */
async function live({ browser, url }) {
  const { page, faults, close } = await openPage(browser, url);
  await page.goto(`${url}/cost`);
  const stages = page.getByRole('table', { name: 'Stages' });
  await stages.locator('tbody tr').first().waitFor();
  const names = await stages.locator('tbody th a').allTextContents();
  for (const name of ['fetch', 'parse', 'append', 'journal', 'outside stages']) {
    assert.ok(names.includes(name), `${name} is not among ${names}`);
  }
  assert.ok(await page.getByRole('table', { name: 'Scrape pools' }).locator('tbody tr').count());
  assert.match(
    await page.getByRole('table', { name: 'Memory by part' }).textContent(),
    /head rows/,
  );
  await seriesDrawn(page.locator('.cost-chart .u-wrap > canvas').first());
  await seriesDrawn(page.locator('.cost-chart .u-wrap > canvas').nth(1));
  await shoot(page, 'cost-live-light');
  const whole = stages.locator('tfoot');
  for (const [type, unit] of [
    ['CPU', / m?s$/],
    ['Allocated', /B$/],
    ['In use', /B$/],
  ]) {
    await whole.getByRole('link', { name: `${type}, the whole` }).click();
    await flameDrawn(page);
    const total = await page.locator('.flame-summary strong').textContent();
    assert.match(total, unit);
    const calls = page.locator('.top-name', { hasText: /server|tokio/ });
    await calls.first().waitFor();
    await page.goBack();
    await stages.waitFor();
  }
  await stages.getByRole('link', { name: 'Allocated, query' }).click();
  await page.locator('.flame-summary', { hasText: 'Allocated of query' }).waitFor();
  assert.deepEqual(faults, []);
  await close();
}

async function overview({ browser, url }) {
  const { page, faults, close } = await openPage(browser, url);
  await answerCosts(page);
  await page.goto(`${url}/cost`);
  const stages = page.getByRole('table', { name: 'Stages' });
  await stages.locator('tbody tr').first().waitFor();
  assert.equal(await stages.locator('tbody tr').count(), 10);
  const first = (row) => stages.locator('tbody tr').nth(row).locator('th a').textContent();
  assert.equal(await first(0), 'fetch');
  assert.equal(await first(9), 'outside stages');
  assert.match(await stages.locator('tfoot').textContent(), /^All stages100\.0 %/);
  // 50 000 samples a second at 190 ns; what the page divides by is the clock's business only for rates.
  const figures = page.locator('.cost-figures');
  const figure = (name) => figures.locator('div', { hasText: name }).locator('dd').textContent();
  assert.match(await figure('CPU per sample'), /^190 ns/);
  assert.match(await figure('Allocated per sample'), /^0\.324 B/);
  // Seconds tell little of stages that run every ten: for half a minute all is since the start.
  await page.getByText(/the last minutes follow in \d+ s$/).waitFor();
  await page.getByRole('button', { name: 'Since start' }).click();
  await paramsWhen(page, (p) => p.get('over') === 'start');
  await page.getByText('All since the start, 3 h 12 min ago').waitFor();
  assert.match(await figure('Samples per second'), /^50\D000/);
  await stages.getByRole('button', { name: 'Allocations per sample' }).click();
  assert.equal(await first(0), 'query');
  await stages.getByRole('button', { name: 'Allocations per sample' }).click();
  assert.notEqual(await first(0), 'query');
  const targets = page.getByRole('table', { name: 'Most expensive targets' });
  assert.equal(await targets.locator('tbody tr').count(), 20);
  assert.equal(
    await page.getByRole('table', { name: 'Scrape pools' }).locator('tbody tr').count(),
    2,
  );
  assert.ok(
    (await page.getByRole('table', { name: 'Memory by part' }).textContent()).includes('64 B'),
  );
  await shoot(page, 'cost-light');
  await targets.locator('tbody a').first().click();
  await paramsWhen(page, (p) => (p.get('search') ?? '').startsWith('http://10.0.'));
  assert.deepEqual(faults, []);
  await close();
}

async function history({ browser, url }) {
  const { page, faults, close } = await openPage(browser, url);
  await answerCosts(page);
  const vector = (metric, value) => ({ metric, value: [Date.now() / 1000, String(value)] });
  const own = { job: 'unladen', instance: 'here:9090' };
  const started = Date.parse(SINCE) / 1000;
  const asked = [];
  await page.route('**/api/v1/query?*', (route) => {
    const query = new URL(route.request().url()).searchParams.get('query');
    if (query.startsWith('process_start_time_seconds')) {
      const result = [
        vector({ job: 'unladen', instance: 'other:9090' }, started - 500),
        vector(own, started),
      ];
      return route.fulfill({ json: { status: 'success', data: { resultType: 'vector', result } } });
    }
    assert.match(query, /job="unladen".*offset 5m$/);
    const then = Date.now() / 1000 - 300;
    const sum = (name, labels, value) => ({
      metric: { __name__: name, ...own, ...labels },
      values: [[then, String(value)]],
    });
    const before = costAfter(11_220);
    const result = [
      sum('process_cpu_seconds_total', {}, before.process.cpu_seconds),
      sum('prometheus_tsdb_head_samples_appended_total', {}, before.samples.ingested),
      ...before.stages.flatMap(({ stage, cpu_seconds, allocations, allocated_bytes }) => [
        sum('profiler_stage_cpu_seconds_total', { stage }, cpu_seconds),
        sum('heap_allocations_total', { stage }, allocations),
        sum('heap_allocated_bytes_total', { stage }, allocated_bytes),
      ]),
    ];
    return route.fulfill({ json: { status: 'success', data: { resultType: 'matrix', result } } });
  });
  await page.route('**/api/v1/query_range?*', (route) => {
    const params = new URL(route.request().url()).searchParams;
    asked.push(params.get('query'));
    const [start, end, step] = ['start', 'end', 'step'].map((name) => Number(params.get(name)));
    const result = ['none', 'parse', 'fetch', 'append', 'idle'].map((stage, n) => ({
      metric: { stage },
      values: Array.from({ length: Math.round((end - start) / step) + 1 }, (_, i) => [
        start + i * step,
        String(stage === 'idle' ? 0 : (n + 1) * (2 + Math.sin(i / 20 + n))),
      ]),
    }));
    return route.fulfill({ json: { status: 'success', data: { resultType: 'matrix', result } } });
  });
  await page.goto(`${url}/cost`);
  const graphs = page.locator('.cost-chart .u-wrap > canvas');
  await seriesDrawn(graphs.first());
  await seriesDrawn(graphs.nth(1));
  assert.match(await page.locator('.cost-span').textContent(), /The last (4|5) min/);
  const key = page.locator('.stage-key').first().locator('li');
  assert.deepEqual(await key.allTextContents(), ['fetch', 'parse', 'append', 'outside stages']);
  assert.ok(
    asked.every((query) => query.includes('instance="here:9090"')),
    asked.join('\n'),
  );
  await shoot(page, 'cost-history-light');
  await page.getByRole('button', { name: '3 h', exact: true }).click();
  await paramsWhen(page, (p) => p.get('range') === '3h');
  const over = await page.locator('.u-over').first().boundingBox();
  await page.mouse.move(over.x + over.width * 0.3, over.y + 60);
  await page.mouse.down();
  await page.mouse.move(over.x + over.width * 0.5, over.y + 70, { steps: 4 });
  await page.mouse.up();
  await paramsWhen(page, (p) => p.has('end') && p.get('range') !== '3h');
  await page.locator('.u-over').first().dblclick();
  await paramsWhen(page, (p) => p.get('range') === '3h' && !p.has('end'));
  await key.first().getByRole('link').click();
  await paramsWhen(page, (p) => p.get('type') === 'cpu' && p.get('stage') === 'fetch');
  assert.deepEqual(faults, []);
  await close();
}

async function stage({ browser, url }) {
  const { page, faults, close } = await openPage(browser, url, { colorScheme: 'dark' });
  const asked = await answerCosts(page);
  await page.goto(`${url}/cost`);
  await page.getByRole('link', { name: 'append', exact: true }).click();
  await flameDrawn(page);
  assert.deepEqual(asked.at(-1), { type: 'cpu', stage: 'append', seconds: '0' });
  assert.match(await page.locator('.flame-summary').textContent(), /^[\d.]+ m?sCPU of append: /);
  await page.locator('.top-row').first().waitFor();
  const names = await page.locator('.top-name').allTextContents();
  assert.ok(names.includes('server::scrape::ingest::Ingest::body'), names.join('\n'));
  await shoot(page, 'flame-dark');
  await page.goBack();
  await page.getByRole('link', { name: 'In use, append' }).click();
  await flameDrawn(page);
  assert.deepEqual(asked.at(-1), { type: 'inuse', stage: 'append', seconds: '0' });
  assert.match(await page.locator('.flame-summary').textContent(), /BIn use of append/);
  await page.getByRole('button', { name: 'Growth in 10 s' }).waitFor();
  await page.getByRole('button', { name: 'Allocated', exact: true }).click();
  await page.getByLabel('Stage').selectOption('parse');
  await paramsWhen(page, (p) => p.get('type') === 'allocated' && p.get('stage') === 'parse');
  await page.locator('.flame-summary', { hasText: 'Allocated of parse' }).waitFor();
  assert.deepEqual(faults, []);
  await close();
}

// all 100: main 100: left 60 (leaf 40), right 30; own 10.
const SMALL = {
  total: 100e6,
  names: ['all', 'app::main', 'app::left', 'lib::leaf', 'app::right'],
  nodes: [
    [0, 0, 100e6, null],
    [1, 10e6, 100e6, 0],
    [4, 30e6, 30e6, 1],
    [2, 20e6, 60e6, 1],
    [3, 40e6, 40e6, 3],
  ],
};

/** The place of a row's part in the flame graph, from 0 to 1. */
async function place(page, row, part) {
  const box = await page.locator('.flame canvas').boundingBox();
  return [box.x + box.width * part, box.y + row * ROW + ROW / 2];
}

async function zoom({ browser, url }) {
  const { page, faults, close } = await openPage(browser, url);
  await answerCosts(page, { profile: SMALL });
  await page.goto(`${url}/cost?type=cpu`);
  await flameDrawn(page);
  const told = page.locator('.flame-told');
  const crumbs = page.getByRole('navigation', { name: 'Zoomed into' });
  await page.mouse.move(...(await place(page, 2, 0.75)));
  await page.locator('.flame-readout', { hasText: 'app::right' }).waitFor();
  assert.match(await page.locator('.flame-readout').textContent(), /total 30 ms.*30\.0 % of all/);
  await page.mouse.click(...(await place(page, 2, 0.3)));
  await paramsWhen(page, (p) => p.has('zoom'));
  assert.equal(await crumbs.textContent(), 'Allapp::mainapp::left');
  assert.match(await told.textContent(), /^app::lefttotal 60 msself 20 ms60\.0 % of all/);
  // What is zoomed into takes all of the width: its call two thirds.
  await page.mouse.move(...(await place(page, 3, 0.64)));
  await page.locator('.flame-readout', { hasText: 'lib::leaf' }).waitFor();
  assert.match(await page.locator('.flame-readout').textContent(), /66\.7 % of the zoomed/);
  assert.deepEqual(await page.locator('.top-name').allTextContents(), ['lib::leaf', 'app::left']);
  await page.reload();
  await flameDrawn(page);
  assert.equal(await crumbs.textContent(), 'Allapp::mainapp::left', 'the address keeps it');
  await crumbs.getByRole('button', { name: 'app::main' }).click();
  await page.waitForFunction(() => !document.querySelector('.crumbs').textContent.includes('left'));
  await page.goBack();
  await crumbs.getByText('app::left').waitFor();
  await crumbs.getByRole('button', { name: 'All' }).click();
  await paramsWhen(page, (p) => !p.has('zoom'));
  await page.getByRole('application').focus();
  for (const [key, name] of [
    ['ArrowDown', 'all'],
    ['ArrowDown', 'app::main'],
    ['ArrowDown', 'app::left'],
    ['ArrowRight', 'app::right'],
    ['ArrowLeft', 'app::left'],
    ['ArrowDown', 'lib::leaf'],
    ['ArrowUp', 'app::left'],
  ]) {
    await page.keyboard.press(key);
    await told.getByText(name, { exact: true }).waitFor();
  }
  await page.keyboard.press('Enter');
  await paramsWhen(page, (p) => p.has('zoom'));
  await page.keyboard.press('Escape');
  await paramsWhen(page, (p) => !p.has('zoom'));
  await page.getByRole('button', { name: 'Zoom to the largest call of app::right' }).click();
  await crumbs.getByText('app::right').waitFor();
  assert.deepEqual(faults, []);
  await close();
}

async function touch({ browser, url }) {
  const { page, faults, close } = await openPage(browser, url, {
    viewport: { width: 375, height: 780 },
    deviceScaleFactor: 2,
    hasTouch: true,
    isMobile: true,
  });
  await answerCosts(page, { profile: SMALL });
  await page.goto(`${url}/cost?type=cpu`);
  await flameDrawn(page);
  const told = page.locator('.flame-told');
  await page.touchscreen.tap(...(await place(page, 2, 0.3)));
  await told.getByText('app::left', { exact: true }).waitFor();
  assert.ok(!new URL(page.url()).searchParams.has('zoom'), 'the first tap only tells');
  await page.touchscreen.tap(...(await place(page, 2, 0.3)));
  await paramsWhen(page, (p) => p.has('zoom'));
  await page.locator('.top-row').first().waitFor();
  await shoot(page, 'flame-phone');
  assert.deepEqual(faults, []);
  await close();
}

async function search({ browser, url }) {
  const { page, faults, close } = await openPage(browser, url);
  await answerCosts(page, { profile: SMALL });
  await page.goto(`${url}/cost?type=cpu`);
  await flameDrawn(page);
  const marked = () => accentPixels(page);
  assert.equal(await marked(), 0);
  await page.keyboard.press('/');
  await page.keyboard.type('LEAF');
  await page.locator('.matched', { hasText: '40.0 % matched, 40 ms' }).waitFor();
  await paramsWhen(page, (p) => p.get('search') === 'LEAF');
  assert.deepEqual(await page.locator('.top-name').allTextContents(), ['lib::leaf']);
  assert.ok((await marked()) > 1000, `${await marked()} pixels`);
  await shoot(page, 'flame-search-light');
  await page.getByRole('searchbox').fill('nowhere');
  await page.getByText('no match', { exact: true }).waitFor();
  await page.getByRole('searchbox').fill('');
  await page.waitForFunction(() => document.querySelectorAll('.top-row').length === 4);
  await page.locator('.top-name', { hasText: 'right' }).click();
  await page.locator('.matched', { hasText: '30.0 % matched' }).waitFor();
  await paramsWhen(page, (p) => p.get('search') === 'app::right');
  await page.locator('.top-name', { hasText: 'right' }).click();
  await page.locator('.matched').waitFor({ state: 'detached' });
  const column = page.locator('.top-head').getByRole('button', { name: 'Total' });
  await column.click();
  assert.equal(await page.locator('.top-name').first().textContent(), 'app::main');
  await column.click();
  assert.equal(await page.locator('.top-name').first().textContent(), 'app::right');
  assert.deepEqual(faults, []);
  await close();
}

/** Pixels in the colour of what a search found. */
function accentPixels(page) {
  return page.locator('.flame canvas').evaluate((canvas) => {
    const hex = getComputedStyle(canvas).getPropertyValue('--accent').trim();
    const wanted = [1, 3, 5].map((at) => Number.parseInt(hex.slice(at, at + 2), 16));
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    let count = 0;
    for (let at = 0; at < data.length; at += 4) {
      if (wanted.every((channel, index) => data[at + index] === channel)) count += 1;
    }
    return count;
  });
}

async function collect({ browser, url }) {
  const { page, faults, close } = await openPage(browser, url, { failedRequests: true });
  await answerCosts(page, { profile: SMALL });
  let release = () => {};
  let given = 0;
  await page.route('**/api/v1/status/profile?*seconds=10*', async (route) => {
    await new Promise((resolve) => (release = resolve));
    given += 1;
    await route
      .fulfill({
        json: { status: 'success', data: { ...SMALL, type: 'wall', unit: 'nanoseconds' } },
      })
      .catch(() => {});
  });
  await page.goto(`${url}/cost?type=cpu`);
  await flameDrawn(page);
  await page.getByRole('button', { name: 'Next 10 s' }).click();
  await page.getByRole('progressbar', { name: 'Collecting' }).waitFor();
  await page.getByText(/^Collecting: [1-9]\d? s left$/).waitFor();
  assert.equal(
    await page.locator('.flame canvas').count(),
    1,
    'the profile before stays meanwhile',
  );
  await page.getByRole('button', { name: 'Cancel' }).click();
  await page.getByRole('progressbar').waitFor({ state: 'detached' });
  release();
  await page.getByRole('button', { name: 'Wall clock' }).click();
  await page.getByRole('progressbar', { name: 'Collecting' }).waitFor();
  const before = given;
  await page.waitForTimeout(50);
  release();
  await page.getByText('collected for 10 s until').waitFor();
  assert.equal(given, before + 1);
  await page.getByRole('button', { name: 'Collect again' }).waitFor();
  assert.deepEqual(faults, []);
  await close();
}

async function large({ browser, url }) {
  const { page, faults, close } = await openPage(browser, url, { deviceScaleFactor: 2 });
  await answerCosts(page, { profile: profileOf(10_000, { depth: 120, stem: 60 }) });
  await page.goto(`${url}/cost?type=cpu`);
  await flameDrawn(page);
  const drawn = () =>
    page.evaluate(() => {
      const [one] = performance.getEntriesByName('flame graph drawn');
      return { count: one.detail, ms: one.duration };
    });
  const whole = await drawn();
  assert.ok(whole.count > 100 && whole.count < 8000, `${whole.count} rectangles`);
  const size = await page
    .locator('.flame canvas')
    .evaluate((c) => [c.width, c.clientWidth, c.height]);
  assert.equal(size[0], size[1] * 2, 'a pixel for every pixel of the screen');
  assert.ok(size[2] <= 2 * 950, 'the canvas is as high as what is seen');
  const times = [];
  const box = await page.locator('.flame canvas').boundingBox();
  for (let step = 1; step < 30; step += 1) {
    await page.mouse.move(box.x + (box.width * step) / 30, box.y + 120 + step * 6);
    times.push((await drawn()).ms);
  }
  times.sort((a, b) => a - b);
  // Deeper than the canvas: what is below comes by scrolling.
  const scroll = page.locator('.flame-scroll');
  const before = await page.locator('.flame canvas').evaluate((c) => c.toDataURL().length);
  await scroll.evaluate((element) => (element.scrollTop = 600));
  await page.waitForFunction(
    (length) => document.querySelector('.flame canvas').toDataURL().length !== length,
    before,
  );
  await shoot(page, 'flame-large-light');
  const nodes = await page.evaluate(() => document.querySelectorAll('*').length);
  assert.ok(nodes < 600, `${nodes} elements in the document`);
  assert.deepEqual(faults, []);
  await close();
  return `${whole.count} rectangles in ${whole.ms.toFixed(1)} ms, then ${times[15].toFixed(1)} ms (median) per move; ${nodes} elements`;
}

const ATTACK = '<img src=x onerror="document.title=\'owned\'; alert(1)">';

async function hostile({ browser, url }) {
  const { page, faults, close } = await openPage(browser, url);
  await answerCosts(page, {
    names: {
      pool: `pool ${ATTACK}`,
      url: `javascript:alert(1)//${ATTACK}`,
      labels: { [ATTACK]: ATTACK },
      stages: [{ stage: ATTACK, cpu_seconds: 1, allocations: 1, allocated_bytes: 1 }],
      parts: [{ part: ATTACK, bytes: 1, items: 0 }],
    },
    profile: {
      ...SMALL,
      names: [ATTACK, `</script><b>${ATTACK}`, `evil::<${ATTACK}>::call`, '', `x\n${ATTACK}`],
    },
  });
  const harmless = async () => {
    assert.doesNotMatch(await page.title(), /^owned/);
    assert.equal(
      await page
        .locator('img, #app script, .flame-name *, .top-name b, .crumbs b, .cost-table b')
        .count(),
      0,
    );
    assert.equal(await page.locator('a[href^="javascript:"]').count(), 0);
    assert.deepEqual(faults, []);
  };
  await page.goto(`${url}/cost`);
  const link = page
    .getByRole('table', { name: 'Stages' })
    .getByRole('link', { name: ATTACK, exact: true });
  await link.waitFor();
  await harmless();
  await link.click();
  await flameDrawn(page);
  await paramsWhen(page, (p) => p.get('stage') === ATTACK);
  await page.mouse.move(...(await place(page, 2, 0.3)));
  await page.locator('.flame-readout', { hasText: 'onerror' }).waitFor();
  await page.mouse.click(...(await place(page, 2, 0.3)));
  await page.getByRole('navigation', { name: 'Zoomed into' }).getByTitle(/^evil/).waitFor();
  await page.locator('.top-name', { hasText: 'evil' }).click();
  await page.locator('.matched', { hasText: 'matched' }).waitFor();
  await shoot(page, 'flame-hostile-light');
  await harmless();
  await close();
}

async function off({ browser, url }) {
  const { page, faults, close } = await openPage(browser, url, { failedRequests: true });
  let data = costAfter(600);
  data = { ...data, stages: data.stages.map((stage) => ({ ...stage, cpu_seconds: 0 })) };
  await page.route('**/api/v1/status/cost', (route) =>
    route.fulfill({ json: { status: 'success', data } }),
  );
  const error = 'the profile cpu is not taken: see --profile.budget, and the log';
  await page.route('**/api/v1/status/profile?*', (route) =>
    route.fulfill({ status: 404, json: { status: 'error', errorType: 'not_found', error } }),
  );
  await page.goto(`${url}/cost`);
  await page.getByText('CPU by stage is not known').waitFor();
  await page.getByText('--profile.budget=0.02').waitFor();
  const parse = page.getByRole('table', { name: 'Stages' }).locator('tr', { hasText: 'parse' });
  assert.equal(await parse.locator('td').nth(2).textContent(), '–', 'unknown is not zero');
  await page.getByRole('link', { name: 'Flame graph' }).click();
  await page.getByRole('alert').getByText(error).waitFor();
  await page.getByText('Is the profiler on?').waitFor();
  await page.unroute('**/api/v1/status/profile?*');
  await page.route('**/api/v1/status/profile?*', (route) =>
    route.fulfill({
      json: {
        status: 'success',
        data: {
          type: 'cpu',
          unit: 'nanoseconds',
          total: 0,
          names: ['all'],
          nodes: [[0, 0, 0, null]],
        },
      },
    }),
  );
  await page.getByRole('button', { name: 'Try again' }).click();
  await page.getByText('Nothing was sampled').waitFor();
  await page.route('**/api/v1/status/cost', (route) => route.abort('connectionrefused'));
  await page.getByRole('link', { name: 'Overview' }).click();
  await page.getByText('No connection').waitFor();
  assert.deepEqual(faults, []);
  await close();
}
