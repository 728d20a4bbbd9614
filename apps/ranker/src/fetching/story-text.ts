import { decodeHTMLStrict } from 'entities/decode';
import { countWords } from '../learn/sentences.ts';
import { attributes, htmlPieces, isBlock, tidyText } from './html-scan.ts';
import { textLength } from './page-images.ts';

/** A paragraph, heading, list item or cell, with the signs of whether it belongs to the story. */
interface Block {
  readonly text: string;
  /** The share of its text that is in links. */
  readonly linkShare: number;
  /** True for headings, list items, cells and code, which may be short and still belong to it. */
  readonly isNamed: boolean;
  readonly isHeading: boolean;
  /** The outermost element around it whose class says that it is not part of the story. */
  readonly beside: object | undefined;
}

/** Words in class names of elements that are not part of the story. */
const besideNames = new Set(
  (
    'ad ads advert advertisement byline breadcrumb breadcrumbs caption captions comments ' +
    'copyright credit credits dateline newsletter pagination promo promotion recirc recommended ' +
    'related share sharing signup social sponsor sponsored subscribe tags toolbar topics trending'
  ).split(' '),
);
/** An element with a larger share of all text is the story, whatever its class. */
const besideShareMax = 0.2;
const named = new Set('h1 h2 h3 h4 h5 h6 li dt dd td th pre code strong b'.split(' '));
const flat = new Set('area br col embed hr img input link meta param source track wbr'.split(' '));

/** A block with a larger share of its text in links is navigation. */
const linkShareMax = 0.6;
const linkWordsMax = 60;
/** A block of fewer words that ends without a full stop is a label. */
const labelWords = 12;
const labelsMax = 8;
/** The same inside of the story, except for headings, lists and tables. */
const innerWords = 3;
const sentenceEnd = /[.!?…。！？:;,]["'”’»)\]]*$/;
/** Beginnings of invitations to read or do something else. */
const invitation = new RegExp(
  `^[([*•»>\\s-]*(?:${[
    'read (?:more|also|next|full|the full)\\b|read \\||see (?:also|more|the|our)\\b.*[^.]$',
    "see time's|also (?:on|read|see)\\b|more (?:from|on|stories|news)\\b|more:",
    'related(?: (?:items|articles|stories|posts|content|topics))?\\s*:?\\s',
    'subscribe|sign up|newsletter|follow (?:us|me|him|her|@)',
    'get \\S+(?: \\S+)? on (?:twitter|facebook)|share this|click here|continue reading',
    'watch:|video:|photos?:|gallery:|listen:|image(?: source)?:|source:|advertisement',
    'tags?:|topics?:|filed under|posted in|copyright|©|\\(c\\)|all rights reserved',
    '(?:à|a) lire|lire (?:aussi|plus)|voir aussi|abonnez|suivez|devenez|inscrivez',
    'publié le|mis à jour|lea también|leer más|ver también|suscr[ií]b|síg[ua]|publicado',
    'más información|lesen sie|mehr (?:zum|zu)|abonnier|folgen sie|anzeige\\b|weiterlesen',
    'leggi anche|iscriviti|leia (?:mais|também)|inscreva',
    'читайте|подпис|相关|延伸阅读|订阅|関連',
  ].join('|')})`,
  'iu',
);
const invitationWords = 35;
/** The names of agencies and words of credits, in a text too short to be a sentence. */
const credit = new RegExp(
  '\\b(?:getty|reuters|afp|ap photo|associated press|epa|dpa|shutterstock|photo(?:graph)?(?:er)?|' +
    'photos|credit|courtesy|image|illustration|foto|crédit|bildquelle)\\b',
  'i',
);

/** A story, with a map from positions in its markup to positions in its text. */
export interface Story {
  readonly text: string;
  /** A number of characters of text, white space not counted, without what was left out. */
  readonly placeOf: (at: number) => number;
}

/** Cleans the markup that an extractor has chosen: removes everything that is not the story. */
export function storyOf(html: string): Story {
  const blocks = blocksOf(html);
  const besides = smallOnes(blocks);
  const story = withoutEdges(blocks.filter((block) => !isBeside(block, besides)));
  const kept = new Set(story);
  return {
    text: story.map(({ text }) => text).join('\n\n'),
    placeOf: (at) => {
      let place = at;
      let from = 0;
      for (const block of blocks) {
        if (from >= at) break;
        const length = textLength(block.text);
        if (!kept.has(block)) place -= Math.min(length, at - from);
        from += length;
      }
      return place;
    },
  };
}

/** Prose without the labels before and behind it. */
function withoutEdges(blocks: readonly Block[]): readonly Block[] {
  const isProse = blocks.filter(isLabel).length < blocks.length / 2;
  if (!isProse) return blocks;
  const first = edge(blocks);
  const last = blocks.length - edge(blocks.toReversed());
  return first < last ? blocks.slice(first, last) : blocks;
}

/** The number of labels that a text begins with: dates, names of authors, buttons. */
function edge(blocks: readonly Block[]): number {
  const length = blocks.slice(0, labelsMax).findIndex((block) => !isLabel(block));
  return Math.max(0, length);
}

function isLabel({ text }: Block): boolean {
  return !sentenceEnd.test(text) && countWords(text) < labelWords;
}

function isBeside(block: Block, besides: ReadonlySet<object>): boolean {
  const { text, linkShare, isNamed, isHeading, beside } = block;
  if (beside !== undefined && besides.has(beside)) return true;
  if (!/[\p{L}\p{N}]/u.test(text)) return true;
  const words = countWords(text);
  if (words < invitationWords && invitation.test(text)) return true;
  if (isHeading) return false;
  if (linkShare > linkShareMax && words < linkWordsMax) return true;
  if (!isLabel(block) || isNamed) return false;
  return words <= innerWords || credit.test(text);
}

/** The elements beside the story that have a small share of all text. */
function smallOnes(blocks: readonly Block[]): ReadonlySet<object> {
  const sizes = new Map<object, number>();
  let total = 0;
  for (const { text, beside } of blocks) {
    total += text.length;
    if (beside !== undefined) sizes.set(beside, (sizes.get(beside) ?? 0) + text.length);
  }
  const small = [...sizes].filter(([, size]) => size < besideShareMax * total);
  return new Set(small.map(([element]) => element));
}

interface Open {
  readonly name: string;
  readonly beside: object | undefined;
}

function blocksOf(html: string): Block[] {
  const blocks: Block[] = [];
  const open: Open[] = [];
  let text = '';
  let linkChars = 0;
  let letters = 0;
  let namedLetters = 0;
  const finish = () => {
    const tidy = tidyText(decodeHTMLStrict(text));
    const names = open.map(({ name }) => name);
    if (tidy !== '') {
      const isHeading = names.some((name) => /^h\d$/.test(name));
      blocks.push({
        text: tidy,
        linkShare: letters === 0 ? 0 : linkChars / letters,
        isNamed: isHeading || namedLetters > letters / 2,
        isHeading,
        beside: open.at(-1)?.beside,
      });
    }
    text = '';
    linkChars = 0;
    letters = 0;
    namedLetters = 0;
  };
  for (const piece of htmlPieces(html)) {
    if (piece.kind === 'raw') continue;
    if (piece.kind === 'text') {
      const isCode = open.some(({ name }) => name === 'pre');
      const added = isCode ? piece.text : piece.text.replace(/\s+/g, ' ');
      text += added;
      const { length } = added.trim();
      letters += length;
      if (open.some(({ name }) => name === 'a')) linkChars += length;
      if (open.some(({ name }) => named.has(name))) namedLetters += length;
      continue;
    }
    const { name } = piece;
    if (name === 'br') {
      if (/\n\s*$/.test(text)) finish();
      else text += '\n';
      continue;
    }
    if (isBlock(name)) finish();
    if (piece.kind === 'close') {
      const at = open.findLastIndex((one) => one.name === name);
      if (at !== -1) open.length = at;
    } else if (!flat.has(name) && !piece.inside.endsWith('/')) {
      open.push({ name, beside: open.at(-1)?.beside ?? besideOf(name, piece.inside) });
    }
  }
  finish();
  return blocks;
}

/** A sign of its own for an element that is beside the story. */
function besideOf(name: string, inside: string): object | undefined {
  if (/^(figcaption|aside|nav|footer|form)$/.test(name)) return {};
  const given = attributes(inside);
  const words = `${given.get('class') ?? ''} ${given.get('id') ?? ''}`
    .replace(/([a-z])([A-Z])/g, '$1 $2')
    .toLowerCase()
    .split(/[^a-z]+/);
  return words.some((word) => besideNames.has(word)) ? {} : undefined;
}
