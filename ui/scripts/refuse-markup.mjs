// Refuses every door through which text could become markup, and every address outside the page's
// own origin. Metric names, label values and errors come from scraped programs: they may only ever
// be text nodes and attribute values. Exits 1 and names the lines.
import { readFileSync, readdirSync } from 'node:fs';
import { join, dirname } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const banned = [
  [
    /innerHTML|outerHTML|dangerouslySetInnerHTML|insertAdjacentHTML|document\.write/,
    'makes markup of text',
  ],
  [/createContextualFragment|DOMParser|srcdoc|setHTMLUnsafe/, 'makes markup of text'],
  [/\beval\(|new Function\(/, 'makes code of text'],
  [/['"(]https?:\/\/(?!www\.w3\.org\/)/, 'names a resource outside this origin'],
];

const faults = [];
function walk(path) {
  for (const entry of readdirSync(path, { withFileTypes: true })) {
    const child = join(path, entry.name);
    if (entry.isDirectory()) walk(child);
    else if (/\.(tsx?|mjs|html|css)$/.test(entry.name)) inspect(child);
  }
}
function inspect(file) {
  readFileSync(file, 'utf8')
    .split('\n')
    .forEach((line, index) => {
      for (const [pattern, why] of banned) {
        if (pattern.test(line))
          faults.push(`${file.slice(root.length + 1)}:${index + 1}: ${why}: ${line.trim()}`);
      }
    });
}
walk(join(root, 'src'));
inspect(join(root, 'index.html'));
if (faults.length > 0) {
  console.error(faults.join('\n'));
  process.exit(1);
}
