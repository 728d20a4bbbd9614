import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** Text that is safe in HTML and in attributes. */
export function escaped(text: string): string {
  const names: Readonly<Record<string, string>> = {
    '&': '&amp;',
    '<': '&lt;',
    '>': '&gt;',
    '"': '&quot;',
  };
  return text.replaceAll(/[&<>"]/g, (sign) => names[sign] as string);
}

/** A name that a package exports, with its declaration and doc comment. */
export interface Exported {
  readonly name: string;
  /** Text of the doc comment; empty without one. */
  readonly about: string;
  readonly declaration: string;
}

/** The names that an entry exports, from the declarations that tsc has written. */
export function exportsOf(entry: string): Exported[] {
  const text = readFileSync(entry, 'utf8');
  const lists = [...text.matchAll(/export (?:type )?\{([^}]*)\} from '(\.[^']+)'/g)];
  const found = lists.flatMap(([, names = '', from = '']) => {
    const file = join(dirname(entry), from.replace(/\.ts$/, '.d.ts'));
    const source = readFileSync(file, 'utf8');
    return names
      .split(',')
      .map(
        (name) =>
          name
            .trim()
            .replace(/^type /, '')
            .split(' as ')[0] ?? '',
      )
      .filter((name) => name !== '')
      .map((name) => find(source, name));
  });
  return found.toSorted((a, b) => (a.name < b.name ? -1 : 1));
}

function find(source: string, name: string): Exported {
  const kinds = '(?:abstract class|class|function|interface|type|const)';
  const start = new RegExp(`^export (?:declare )?${kinds} ${name}\\b`, 'm');
  const at = source.search(start);
  if (at < 0) return { name, about: '', declaration: '' };
  const rest = source.slice(at);
  const isBlock = /^export (?:declare )?(?:abstract class|class|interface)/.test(rest);
  const block = isBlock
    ? rest.slice(0, rest.search(/^\}/m) + 1)
    : (/^[\s\S]*?;$/m.exec(rest)?.[0] ?? rest);
  const before = source.slice(0, at);
  const [, about = ''] = /\/\*\*((?:(?!\*\/)[\s\S])*)\*\/\s*$/.exec(before) ?? [];
  const lines = about.split('\n').map((line) => line.replace(/^\s*\* ?/, '').trim());
  const declaration = block.replaceAll(/^ +#private;\n/gm, '').replaceAll(/^ +private .*\n/gm, '');
  return { name, about: lines.join(' ').trim(), declaration: declaration.replace(/declare /, '') };
}

/** The reference of a package as Markdown: each entry, each name with its declaration. */
export function referenceOf(
  name: string,
  entries: Readonly<Record<string, string>>,
  declarations: string,
): string {
  const parts = Object.entries(entries).flatMap(([entry, path]) => {
    if (/internal|worker/.test(path)) return [];
    const file = join(declarations, path.replace('./src/', '').replace(/\.ts$/, '.d.ts'));
    const names = exportsOf(file).map(({ name: each, about, declaration }) => {
      const words = about.replaceAll(/\{@link (\w+)\}/g, '`$1`');
      return `### ${each}\n\n${words}\n\n\`\`\`ts\n${declaration}\n\`\`\`\n`;
    });
    return [`## ${entry.replace('.', name)}\n\n${names.join('\n')}`];
  });
  return `# ${name}: reference\n\nMade from the doc comments.\n\n${parts.join('\n')}`;
}
