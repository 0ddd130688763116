// The server under test: UNLADEN_URL, or an own `unladen serve` on a free port with a fresh data
// directory, which scrapes itself and this machine.
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..', '..');

/** Address without a trailing slash, and how to stop. */
export async function startServer() {
  const given = process.env.UNLADEN_URL;
  if (given) return { url: given.replace(/\/$/, ''), stop: async () => {} };
  const binary = process.env.UNLADEN_BIN ?? join(root, 'target', 'debug', 'unladen');
  if (!existsSync(binary)) {
    throw new Error(`no server: ${binary} is not built and UNLADEN_URL is not set`);
  }
  const data = mkdtempSync(join(tmpdir(), 'unladen-page-'));
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const args = ['serve', `--web.listen-address=127.0.0.1:${port}`, `--storage.tsdb.path=${data}`];
  const child = spawn(binary, args, { cwd: data, stdio: ['ignore', 'pipe', 'pipe'] });
  const log = [];
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk) => {
      log.push(String(chunk));
      if (log.length > 500) log.shift();
    });
  }
  const ended = new Promise((resolve) => child.on('exit', resolve));
  const stop = async () => {
    child.kill('SIGTERM');
    await ended;
    rmSync(data, { recursive: true, force: true });
  };
  try {
    await until(`${url}/-/ready`, async () => {
      if (child.exitCode !== null) throw new Error(`the server ended with ${child.exitCode}`);
      return (await fetch(`${url}/-/ready`)).ok;
    });
    await waitForData(url);
  } catch (error) {
    await stop();
    throw new Error(`${error.message}\n${log.join('')}`);
  }
  return { url, stop };
}

/** Waits until there is a minute of data: cases zoom into what was half a minute ago. */
async function waitForData(url) {
  const query = encodeURIComponent('count(count_over_time(up[5m]) >= 12)');
  await until('twelve scrapes', async () => {
    const answer = await (await fetch(`${url}/api/v1/query?query=${query}`)).json();
    return answer.status === 'success' && answer.data.result.length > 0;
  });
}

async function until(what, check, limit = 120_000) {
  const end = Date.now() + limit;
  let last = '';
  while (Date.now() < end) {
    try {
      if (await check()) return;
    } catch (error) {
      last = `: ${error.message}`;
      if (/ended with/.test(last)) break;
    }
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  throw new Error(`waited in vain for ${what}${last}`);
}

function freePort() {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.on('error', reject);
    probe.listen(0, '127.0.0.1', () => {
      const { port } = probe.address();
      probe.close(() => resolve(port));
    });
  });
}
