import { readFileSync } from 'node:fs';

/** A reader's taste as test data: topics from the most to the least liked, ten articles each. */
export interface LabelledTopic {
  readonly topic: string;
  readonly score: number;
  readonly articles: readonly (readonly [title: string, text: string])[];
}

const file = new URL('./labelled-texts.json', import.meta.url);
export const labelledTopics: readonly LabelledTopic[] = JSON.parse(readFileSync(file, 'utf8'));
