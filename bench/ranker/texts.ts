import { seededRandom } from 'spillway';

const nouns = 'river engine compiler garden letter market signal forest database window'.split(' ');
const verbs = 'carries finds changes measures builds follows explains keeps divides opens'.split(
  ' ',
);
const ends = 'in the morning|without any warning|for a second time|near the old bridge'.split('|');

/** Texts of 600 words, all different, so that no cache can answer. */
export class Texts {
  readonly #random = seededRandom(600);

  next(): string {
    const sentences: string[] = [];
    let words = 0;
    while (words < 600) {
      const sentence = `The ${this.#one(nouns)} ${this.#one(verbs)} the ${this.#one(nouns)} and the
        ${this.#one(nouns)} ${this.#one(verbs)} a ${this.#one(nouns)} ${this.#one(ends)}.`;
      const plain = sentence.replaceAll(/\s+/g, ' ');
      sentences.push(plain);
      words += plain.split(' ').length;
    }
    return sentences.join(' ');
  }

  #one(words: readonly string[]): string {
    return words[Math.floor(this.#random() * words.length)] ?? '';
  }
}
