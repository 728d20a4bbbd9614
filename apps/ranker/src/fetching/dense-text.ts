import { decodeHTMLStrict } from 'entities/decode';
import { htmlPieces, isBlock, tidyText } from './html-scan.ts';

/** Elements that are never part of a story. */
const furniture = /^(nav|aside|footer|form|button|select|noscript|dialog|menu)$/;
/** A block of fewer characters is a label or a caption. */
const blockCharsMin = 80;
/** A block with a larger share of its text in links is navigation. */
const linkShareMax = 0.3;

/** The paragraphs of a page by a simple rule, for want of better: long blocks with few links. */
export function denseText(html: string): string {
  const kept: string[] = [];
  let block = '';
  let linkChars = 0;
  // What nests too deep to be right is cut off by the closing tag of any ancestor.
  let inFurniture = 0;
  let inLink = 0;
  const finish = () => {
    const text = tidyText(decodeHTMLStrict(block));
    const isStory = text.length >= blockCharsMin && linkChars <= linkShareMax * text.length;
    if (isStory && /[.!?。！？]/.test(text)) kept.push(text);
    [block, linkChars] = ['', 0];
  };
  for (const piece of htmlPieces(html)) {
    if (piece.kind === 'raw') continue;
    if (piece.kind === 'text') {
      if (inFurniture > 0) continue;
      const text = piece.text.replace(/\s+/g, ' ');
      block += text;
      if (inLink > 0) linkChars += text.length;
      continue;
    }
    const { name, kind } = piece;
    const step = kind === 'open' ? 1 : -1;
    if (furniture.test(name)) inFurniture = Math.max(0, inFurniture + step);
    if (name === 'a') inLink = kind === 'open' ? 1 : 0;
    if (isBlock(name)) finish();
  }
  finish();
  return kept.join('\n\n');
}
