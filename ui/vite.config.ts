// Builds the page into dist/. Everything in it is addressed relative to the document, so that the
// server may mount it under any route prefix. `npm run dev` forwards the API to UNLADEN_URL.
import { defineConfig } from 'vite';

const server = process.env['UNLADEN_URL'] ?? 'http://127.0.0.1:9090';

export default defineConfig({
  base: './',
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  build: {
    target: 'es2022',
    modulePreload: { polyfill: false },
    // The strict content policy has no data: URLs.
    assetsInlineLimit: 0,
    reportCompressedSize: true,
    // The editor and the graph, in one chunk that the query page loads.
    chunkSizeWarningLimit: 700,
  },
  server: { proxy: { '/api': server, '/-/': server, '/metrics': server } },
});
