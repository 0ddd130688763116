// Serves dist/ as the server does, under any prefix and with its content policy, and forwards the API
// to UNLADEN_URL: `node scripts/serve.mjs [port] [prefix]`. For looking at a build without the server.
import { createServer, request } from 'node:http';
import { readFile } from 'node:fs/promises';
import { dirname, extname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';

const dist = join(dirname(fileURLToPath(import.meta.url)), '..', 'dist');
const TYPES = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
};
const POLICY = "default-src 'self'; style-src 'self' 'unsafe-inline'; frame-ancestors 'none'";

/** Starts to listen; the promise gives the server once it does. */
export function serve({ port = 0, prefix = '/', upstream }) {
  const server = createServer((incoming, outgoing) => {
    const url = new URL(incoming.url, 'http://localhost');
    if (!url.pathname.startsWith(prefix))
      return void outgoing.writeHead(404).end('outside the prefix');
    const path = url.pathname.slice(prefix.length);
    if (path.startsWith('api/') || path.startsWith('-/')) {
      return forward(upstream, `/${path}${url.search}`, incoming, outgoing);
    }
    return sendFile(path, outgoing);
  });
  return new Promise((resolve) => server.listen(port, '127.0.0.1', () => resolve(server)));
}

async function sendFile(path, outgoing) {
  const name = extname(path) === '' ? 'index.html' : path;
  try {
    const body = await readFile(join(dist, normalize(`/${name}`)));
    const type = TYPES[extname(name)] ?? 'application/octet-stream';
    outgoing.writeHead(200, { 'content-type': type, 'content-security-policy': POLICY }).end(body);
  } catch {
    outgoing.writeHead(404).end('no such file');
  }
}

function forward(upstream, path, incoming, outgoing) {
  const { host: _, ...headers } = incoming.headers;
  const asked = request(new URL(path, upstream), { method: incoming.method, headers }, (answer) => {
    outgoing.writeHead(answer.statusCode, answer.headers);
    answer.pipe(outgoing);
  });
  asked.on('error', () => outgoing.writeHead(502).end('the server behind does not answer'));
  outgoing.on('close', () => asked.destroy());
  incoming.pipe(asked);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [, , port = '5173', prefix = '/'] = process.argv;
  const upstream = process.env.UNLADEN_URL ?? 'http://127.0.0.1:9090';
  await serve({ port: Number(port), prefix, upstream });
  console.log(`http://127.0.0.1:${port}${prefix} in front of ${upstream}`);
}
