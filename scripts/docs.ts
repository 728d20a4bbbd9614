import { execFileSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  globSync,
  mkdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join, normalize, relative, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { Marked } from 'marked';
import { escaped, referenceOf } from './docs/reference.ts';

const usage = `usage: npm run docs [-- --out <folder>]
Makes a static site of README, docs/, the examples and the doc comments; default dist/docs.`;

const root = dirname(import.meta.dirname);

/** A page of the site, as Markdown. */
interface Page {
  /** Path in the site, such as `docs/guides/sizing.html`. */
  readonly path: string;
  readonly group: string;
  readonly text: string;
  /** Folder of its source, to which its links are relative. */
  readonly from: string;
}

const groups: readonly (readonly [name: string, pattern: string])[] = [
  ['Start', '{README,docs/guides/start,docs/guides/parts}.md'],
  ['Parts', 'docs/parts/*.md'],
  ['Guides', 'docs/guides/!(start|parts).md'],
  ['Packages', 'packages/*/README.md'],
  ['Services', 'apps/*/README.md'],
  ['Background', 'docs/*.md'],
  ['Decisions', 'docs/decisions/*.md'],
  ['Project', '{CHANGELOG,CONTRIBUTING}.md'],
];

const htmlPath = (file: string) =>
  file.replace(/README\.md$/, 'index.md').replace(/\.md$/, '.html');

function readPages(declarations: string): Page[] {
  const pages = groups.flatMap(([group, pattern]) =>
    globSync(pattern, { cwd: root })
      .sort()
      .map((file): Page => {
        const text = readFileSync(join(root, file), 'utf8');
        return { path: htmlPath(file), group, text, from: dirname(file) };
      }),
  );
  const examples = globSync('examples/*.ts', { cwd: root })
    .sort()
    .map((file) => {
      const code = readFileSync(join(root, file), 'utf8');
      return `## ${basename(file, '.ts')}\n\n\`\`\`ts\n${code}\`\`\`\n`;
    });
  const all = `# Examples\n\nEach is one idea and is run by a test.\n\n${examples.join('\n')}`;
  pages.push({ path: 'examples/index.html', group: 'Start', text: all, from: 'examples' });
  for (const folder of globSync('packages/*/tsconfig.build.json', { cwd: root })
    .map(dirname)
    .sort()) {
    const out = join(declarations, basename(folder));
    const tsc = join(root, 'node_modules', 'typescript', 'bin', 'tsc');
    const flags = ['-p', join(root, folder, 'tsconfig.build.json'), '--outDir', out];
    execFileSync(process.execPath, [tsc, ...flags, '--emitDeclarationOnly'], { stdio: 'inherit' });
    const { name, exports } = JSON.parse(readFileSync(join(root, folder, 'package.json'), 'utf8'));
    if (exports === undefined) continue;
    const text = referenceOf(name, exports, out);
    pages.push({ path: `reference/${name}.html`, group: 'Reference', text, from: 'reference' });
  }
  return pages;
}

/** The target of a link in the site: a page, a picture, or undefined if there is neither. */
function linkOf(
  href: string,
  { from, path }: Page,
  paths: ReadonlySet<string>,
): string | undefined {
  if (/^(https?:|#|mailto:)/.test(href)) return href;
  // All examples are on one page of the site, and what a file exports is in the reference.
  const [file = '', hash] = href.replace(/\bexamples\/([\w-]+)\.ts$/, 'examples#$1').split('#');
  const target = normalize(join(from, file)).replace(
    /^packages\/(\w+)\/src\/.*\.ts$/,
    (_, folder) => `reference/${folder === 'spillway' ? folder : `spillway-${folder}`}.html`,
  );
  const found = [target, htmlPath(target), join(target, 'index.html')].find((each) => {
    return paths.has(each) || each.startsWith('docs/images/');
  });
  if (found === undefined) return undefined;
  const address = relative(dirname(path), found);
  return hash === undefined ? address : `${address}#${hash}`;
}

const idOf = (text: string) =>
  text
    .toLowerCase()
    .replaceAll(/[^\w\s-]/g, '')
    .trim()
    .replaceAll(/\s+/g, '-');

function render(page: Page, paths: ReadonlySet<string>): string {
  const marked = new Marked({
    renderer: {
      heading({ tokens, depth, text }) {
        return `<h${depth} id="${idOf(text)}">${this.parser.parseInline(tokens)}</h${depth}>\n`;
      },
      link({ href, tokens }) {
        const address = linkOf(href, page, paths);
        const inner = this.parser.parseInline(tokens);
        return address === undefined ? inner : `<a href="${escaped(address)}">${inner}</a>`;
      },
      code({ text, lang }) {
        const kind = lang === undefined ? '' : ` class="language-${escaped(lang)}"`;
        // Long lines can be scrolled, also by keyboard.
        return `<pre tabindex="0"><code${kind}>${escaped(text)}\n</code></pre>\n`;
      },
      image({ href, text }) {
        return `<img src="${escaped(linkOf(href, page, paths) ?? href)}" alt="${escaped(text)}">`;
      },
      table(token) {
        const row = (cells: typeof token.header, tag: string) => {
          const inner = cells.map(({ tokens }) => {
            return `<${tag}>${this.parser.parseInline(tokens)}</${tag}>`;
          });
          return `<tr>${inner.join('')}</tr>`;
        };
        const rows = token.rows.map((cells) => row(cells, 'td')).join('\n');
        const head = row(token.header, 'th');
        return `<div class="scroll" tabindex="0"><table>${head}\n${rows}</table></div>\n`;
      },
    },
  });
  return marked.parse(page.text, { async: false });
}

const titleOf = ({ text, path }: Page) => /^# (.+)$/m.exec(text)?.[1]?.replaceAll('`', '') ?? path;

function frame(page: Page, body: string, pages: readonly Page[]): string {
  const up = relative(dirname(page.path), '.') || '.';
  const lists = [...Map.groupBy(pages, ({ group }) => group)].map(([group, members]) => {
    const items = members.map((each) => {
      const here = each === page ? ' aria-current="page"' : '';
      const [short = ''] = titleOf(each).split(': ');
      const name = group === 'Parts' ? short : titleOf(each);
      return `<li><a href="${up}/${each.path}"${here}>${escaped(name)}</a></li>`;
    });
    const open = group === page.group || group === 'Guides' ? ' open' : '';
    return `<details${open}><summary>${group}</summary><ul>${items.join('')}</ul></details>`;
  });
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>${escaped(titleOf(page))}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="${up}/icon.svg">
<link rel="stylesheet" href="${up}/kit.css"><link rel="stylesheet" href="${up}/docs.css">
<script src="${up}/kit.js" defer></script><script src="${up}/pages.js" defer></script>
<script src="${up}/docs.js" defer data-up="${up}"></script></head>
<body><a class="skip" href="#main">Skip to the page</a>
<header class="bar"><a class="brand" href="${up}/index.html"><span>Spillway</span></a>
<div class="tools"><input class="input" id="search" type="search" placeholder="Search"
 aria-label="Search the documentation" autocomplete="off">
<button type="button" class="button bare little" data-theme-switch>Theme</button></div></header>
<div class="docs"><nav aria-label="Pages">${lists.join('\n')}</nav>
<main id="main" tabindex="-1"><div id="found" role="status" hidden></div>
<article>${body}</article></main></div></body></html>
`;
}

const { values } = parseArgs({ options: { out: { type: 'string' }, help: { type: 'boolean' } } });
if (values.help) {
  console.log(usage);
} else {
  const out = resolve(values.out ?? join(root, 'dist', 'docs'));
  rmSync(out, { recursive: true, force: true });
  const declarations = join(out, 'declarations');
  const pages = readPages(declarations);
  rmSync(declarations, { recursive: true, force: true });
  const paths = new Set(pages.map(({ path }) => path));
  for (const page of pages) {
    const file = join(out, page.path);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, frame(page, render(page, paths), pages));
  }
  const index = pages.map((page) => [page.path, titleOf(page), page.group, page.text]);
  writeFileSync(join(out, 'pages.js'), `globalThis.docsPages = ${JSON.stringify(index)};\n`);
  const kit = join(root, 'packages/http/src/page/browser');
  for (const file of ['kit.css', 'kit.js', 'icon.svg']) cpSync(join(kit, file), join(out, file));
  for (const file of ['docs.css', 'docs.js'])
    cpSync(join(root, 'scripts/docs', file), join(out, file));
  const images = join(root, 'docs/images');
  if (existsSync(images)) cpSync(images, join(out, 'docs/images'), { recursive: true });
  console.log(`${pages.length} pages in ${relative(process.cwd(), out)}; open index.html`);
}
