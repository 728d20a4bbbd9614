import { tidyText } from './html-scan.ts';

/** The article's schema.org data. */
export interface StructuredData {
  readonly title: string | undefined;
  readonly text: string | undefined;
  readonly author: string | undefined;
  readonly published: string | undefined;
  /** False if only subscribers may read all of it. */
  readonly isFree: boolean;
}

type Node = Readonly<Record<string, unknown>>;

const nodesMax = 1_000;

/** The article among blocks of JSON-LD; undefined if none of them describes one. */
export function structuredData(blocks: readonly string[]): StructuredData | undefined {
  const nodes = blocks.flatMap(parse).flatMap(nodesOf).slice(0, nodesMax);
  const articles = nodes.filter((node) => typesOf(node).some(isArticle));
  // The article of the page has more data than the teasers of others.
  const [article] = articles.sort((a, b) => weight(b) - weight(a));
  if (article === undefined) return undefined;
  const body = text(article.articleBody) ?? text(article.text);
  return {
    title: text(article.headline) ?? text(article.name),
    text: body && tidyText(body),
    author: names(article.author ?? article.creator),
    published: text(article.datePublished) ?? text(article.dateCreated),
    isFree: !/^false$/i.test(String(article.isAccessibleForFree ?? '')),
  };
}

function parse(block: string): unknown[] {
  const json = block.replace(/^\s*(?:<!--|<!\[CDATA\[|\/\/.*\n)+|(?:-->|\]\]>)\s*$/g, '');
  try {
    return [JSON.parse(json)];
  } catch {
    // Line breaks inside of strings are a frequent mistake.
    try {
      return [JSON.parse(json.replace(/\p{Cc}+/gu, ' '))];
    } catch {
      return [];
    }
  }
}

function nodesOf(value: unknown): Node[] {
  if (Array.isArray(value)) return value.slice(0, nodesMax).flatMap(nodesOf);
  if (typeof value !== 'object' || value === null) return [];
  const node = value as Node;
  const inner = [node['@graph'], node.mainEntity, node.mainEntityOfPage];
  return [node, ...inner.filter((one) => typeof one === 'object').flatMap(nodesOf)];
}

function typesOf(node: Node): string[] {
  const type = node['@type'];
  return (Array.isArray(type) ? type : [type]).map(String);
}

function isArticle(type: string): boolean {
  return /(Article|Posting|Report|Review|Recipe)$/.test(type);
}

function weight(article: Node): number {
  return (text(article.articleBody)?.length ?? 0) + Object.keys(article).length;
}

function text(value: unknown): string | undefined {
  const first = Array.isArray(value) ? value[0] : value;
  const found = typeof first === 'object' && first !== null ? (first as Node).name : first;
  return typeof found === 'string' && found.trim() !== '' ? found.trim() : undefined;
}

function names(value: unknown): string | undefined {
  const all = (Array.isArray(value) ? value.slice(0, 5) : [value]).map(text);
  return all.filter((name) => name !== undefined).join(', ') || undefined;
}
