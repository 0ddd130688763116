// Text from scraped programs that tries to become markup, in every place where the page shows it.
import assert from 'node:assert/strict';
import { graphDrawn, openPage, shoot } from '../browser.mjs';

const ATTACK = '<img src=x onerror="document.title=\'owned\'; alert(1)">';
const NAME = `say "hi" </script><b>${ATTACK}`;
const UTF8 = 'größe.der"warteschlange';

export const cases = [
  { name: 'hostile labels and names stay text in graph, legend, readout and table', run: query },
  { name: 'hostile names and help stay text in the completion', run: completion },
  { name: 'hostile targets, errors, configuration and cardinality stay text', run: pages },
];

const answer = (data) => ({
  contentType: 'application/json',
  body: JSON.stringify({
    status: 'success',
    data,
    warnings: [`careful ${ATTACK}`],
    infos: [ATTACK],
  }),
});

const LABELS = { __name__: NAME, [`key${ATTACK}`]: ATTACK, 'status.code': 'a"b\\c\n', job: 'x' };

/** Nothing of the attack ran or became an element. */
async function assertHarmless(page, faults) {
  assert.doesNotMatch(await page.title(), /^owned/);
  assert.equal(await page.locator('img, #app b, #app script').count(), 0);
  assert.deepEqual(faults, []);
}

async function query({ browser, url }) {
  const { page, faults, close } = await openPage(browser, url);
  await page.route('**/api/v1/query_range*', (route) => {
    const params = new URL(route.request().url()).searchParams;
    const [start, end, step] = ['start', 'end', 'step'].map((name) => Number(params.get(name)));
    const values = [];
    for (let t = start; t <= end; t += step) values.push([t, String(Math.sin(t / 300) + 2)]);
    const low = values.map(([t, v]) => [t, String(Number(v) / 3)]);
    return route.fulfill(
      answer({
        resultType: 'matrix',
        result: [
          { metric: LABELS, values },
          { metric: { __name__: UTF8, job: 'x' }, values: low },
        ],
      }),
    );
  });
  await page.route('**/api/v1/query?*', (route) =>
    route.fulfill(answer({ resultType: 'vector', result: [{ metric: LABELS, value: [1, '1'] }] })),
  );
  await page.goto(`${url}/query?g0.expr=${encodeURIComponent(`{"${UTF8.replace('"', '\\"')}"}`)}`);
  await graphDrawn(page);
  assert.ok(
    (await page.locator('.legend-row').first().textContent()).includes(
      ATTACK.replaceAll('"', '\\"'),
    ),
  );
  assert.ok(
    (await page.locator('.legend-row').nth(1).textContent()).includes('größe.der\\"warteschlange'),
  );
  assert.ok((await page.locator('.notice.warning').textContent()).includes(`careful ${ATTACK}`));
  const over = await page.locator('.u-over').boundingBox();
  let shown = '';
  for (let step = 1; step < 20 && !shown.includes('onerror'); step += 1) {
    await page.mouse.move(over.x + over.width / 2, over.y + (over.height * step) / 20);
    shown = (await page.locator('.readout').textContent()) ?? '';
  }
  assert.ok(shown.includes('onerror'), shown);
  await shoot(page, 'hostile-light');
  await assertHarmless(page, faults);
  await page.getByRole('tab', { name: 'Table' }).click();
  await page.locator('.result-row').first().waitFor();
  assert.ok((await page.locator('.result-row').first().textContent()).includes('<img src=x'));
  await assertHarmless(page, faults);
  await close();
}

async function completion({ browser, url }) {
  const { page, faults, close } = await openPage(browser, url);
  await page.route('**/api/v1/label/__name__/values*', (route) =>
    route.fulfill(answer([`evil${ATTACK}`, 'evil_metric'])),
  );
  await page.route('**/api/v1/metadata*', (route) =>
    route.fulfill(answer({ evil_metric: [{ type: ATTACK, help: ATTACK, unit: '' }] })),
  );
  await page.goto(`${url}/query`);
  await page.locator('.cm-content').click();
  await page.keyboard.type('evil', { delay: 25 });
  await page.locator('.cm-tooltip-autocomplete').getByText('evil_metric').waitFor();
  for (let step = 0; step < 4; step += 1) {
    await page.keyboard.press('ArrowDown');
    await page.waitForTimeout(60);
    await assertHarmless(page, faults);
  }
  await close();
}

async function pages({ browser, url }) {
  const { page, faults, close } = await openPage(browser, url);
  const target = {
    discoveredLabels: { __address__: ATTACK, [ATTACK]: ATTACK },
    labels: LABELS,
    scrapePool: `pool ${ATTACK}`,
    scrapeUrl: `javascript:alert(1)//${ATTACK}`,
    globalUrl: 'javascript:alert(1)',
    lastError: `server returned ${ATTACK}`,
    lastScrape: '2026-11-21T15:31:32.017370531Z',
    lastScrapeDuration: 0.01,
    health: 'down',
    scrapeInterval: '15s',
    scrapeTimeout: '10s',
  };
  await page.route('**/api/v1/targets?*', (route) =>
    route.fulfill(
      answer({
        activeTargets: [target],
        droppedTargets: [
          { discoveredLabels: target.discoveredLabels, scrapePool: target.scrapePool },
        ],
      }),
    ),
  );
  await page.route('**/api/v1/status/config*', (route) =>
    route.fulfill(answer({ yaml: `# ${ATTACK}\nglobal:\n  x: ${ATTACK}\n` })),
  );
  const counts = [{ name: `a=${ATTACK}`, value: 3 }];
  await page.route('**/api/v1/status/tsdb*', (route) =>
    route.fulfill(
      answer({
        headStats: { numSeries: 3, chunkCount: 3, minTime: 1, maxTime: 2 },
        seriesCountByMetricName: [{ name: NAME, value: 3 }],
        labelValueCountByLabelName: counts,
        memoryInBytesByLabelName: counts,
        seriesCountByLabelValuePair: counts,
      }),
    ),
  );
  await page.goto(`${url}/targets`);
  await page.locator('.target-error').waitFor();
  assert.ok((await page.locator('.target-error').textContent()).includes(ATTACK));
  assert.equal(await page.locator('a[href^="javascript:"]').count(), 0);
  await page.getByRole('button', { name: /Labels of/ }).click();
  await page.locator('.label-table').first().waitFor();
  await assertHarmless(page, faults);
  await page.goto(`${url}/service-discovery`);
  await page.locator('.found-head').first().click();
  await page.locator('.label-table').first().waitFor();
  await assertHarmless(page, faults);
  await page.goto(`${url}/config`);
  await page.locator('.yaml').waitFor();
  await assertHarmless(page, faults);
  await page.goto(`${url}/tsdb-status`);
  await page.locator('.ranking li').first().waitFor();
  await assertHarmless(page, faults);
  await close();
}
