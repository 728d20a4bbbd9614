import { Readability } from 'dom-smoothie-js';
import type { ArticleSource } from './article.ts';
import { denseText } from './dense-text.ts';
import { tidyText } from './html-scan.ts';
import { pageFacts } from './page-facts.ts';
import { imagesIn, leadImage, type PageImage } from './page-images.ts';
import { storyOf } from './story-text.ts';

/** The readable part of a page, and the obstacles to reading it. */
export interface Extraction {
  readonly title: string;
  /** Plain text; paragraphs are parted by an empty line. */
  readonly text: string;
  readonly author: string | undefined;
  /** UNIX time in milliseconds. */
  readonly published: number | undefined;
  /** The address the page claims, as it is written there. */
  readonly canonical: string | undefined;
  readonly images: readonly PageImage[];
  readonly how: Exclude<ArticleSource, 'browser'>;
  /** False if the page says that only subscribers may read all of it. */
  readonly isFree: boolean;
  /** True if the page says that it needs scripts. */
  readonly needsScripts: boolean;
  /** True if it only checks whether its reader is human. */
  readonly isChallenge: boolean;
  /** True if the page was too large for Readability, so that only long paragraphs were taken. */
  readonly isHuge: boolean;
}

/** The length in characters below which the next method is tried. */
const enoughChars = 250;
/** A story with a smaller share of the text that Readability found is replaced by all of it. */
const storyShareMin = 0.5;
/** Characters taken of the text of a page. */
const textCharsMax = 400_000;
const titleCharsMax = 500;

const challenge = new RegExp(
  'just a moment|attention required|are you (a )?(human|robot)|verify(ing)? (that )?you are|' +
    'unusual traffic|access (to this page has been )?denied|checking your browser|' +
    'press (&|and) hold|captcha',
  'i',
);

/** Finds the main text of a page: by Readability, in its structured data, or by density. */
export function extractPage(html: string, url: string): Extraction {
  const facts = pageFacts(html);
  const { structured, author, published, canonical, needsScripts } = facts;
  const readable = facts.isHuge ? undefined : readPage(html, url);
  const found = mainText(html, readable?.text ?? '', structured?.text ?? '');
  const images = found.text === readable?.text ? readable.images : [];
  const text = found.text.slice(0, textCharsMax).toWellFormed();
  const title = ownTitle(readable?.title || facts.title, facts.headings);
  const isChallenge = text.length < 600 && challenge.test(`${facts.title}\n${text}`);
  return {
    title: title.slice(0, titleCharsMax).toWellFormed(),
    text,
    how: found.how,
    author: author ?? readable?.author,
    published,
    images: images.length > 0 ? images : leadImage(facts.image, url),
    canonical,
    isFree: structured?.isFree ?? true,
    needsScripts,
    isChallenge,
    isHuge: facts.isHuge,
  };
}

/** Removes the name of the site from a title, if a heading tells which part that is. */
function ownTitle(title: string, headings: ReadonlySet<string>): string {
  const parts = title.split(/\s+[|–—·:»-]\s+/);
  return parts.find((part) => part !== '' && headings.has(part)) ?? title;
}

function mainText(
  html: string,
  readable: string,
  structured: string,
): { readonly text: string; readonly how: Extraction['how'] } {
  // Pages that show a teaser often hand the whole text to search engines.
  if (structured.length > Math.max(enoughChars, 1.5 * readable.length)) {
    return { text: structured, how: 'structured' };
  }
  if (readable.length >= enoughChars) return { text: readable, how: 'static' };
  const dense = denseText(html);
  return { text: dense.length > readable.length ? dense : readable, how: 'static' };
}

interface Readable {
  readonly title: string;
  readonly text: string;
  readonly author: string;
  readonly images: readonly PageImage[];
}

function readPage(html: string, url: string): Readable | undefined {
  const options = {
    text_mode: 'Formatted',
    // `storyOf` finds by class names what is not part of the story.
    keep_classes: true,
  };
  try {
    const page = new Readability(html.toWellFormed(), url, options);
    const { title, content, text_content, byline } = page.parse();
    page.free();
    const all = { title: title ?? '', text: tidyText(text_content), author: byline };
    const images = imagesIn(content, url);
    const story = storyOf(content);
    // A page of little but labels and links is kept whole.
    if (story.text.length < storyShareMin * all.text.length) return { ...all, images };
    const placed = images.map((image) => ({ ...image, at: story.placeOf(image.at) }));
    return { ...all, text: story.text, images: placed };
  } catch (error) {
    // Its WebAssembly memory may be corrupt: this thread ends, since only a new one gets another.
    if ((error as Error).name === 'RuntimeError') process.exit(1);
    // Readability throws if it finds no text.
    return undefined;
  }
}
