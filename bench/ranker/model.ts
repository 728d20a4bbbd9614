import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const root = join(import.meta.dirname, '..', '..');
const place = 'apps/ranker/model';

interface Context {
  readonly resource: unknown;
  readonly aborted: boolean;
  readonly signal: AbortSignal;
}

/** The model that the ranker's own workers embed with, used in the same way. */
interface EmbedderWorker {
  setup(): Promise<unknown>;
  begin(
    input: { title: string; text: string; sentencesMax: number },
    context: Context,
  ): Promise<{ value: { sentences: readonly string[]; vectors: Float32Array } }>;
  embed(texts: readonly string[], context: Context): Promise<unknown>;
  dimension(_: undefined, context: Context): Promise<number>;
}

/** The sentences that the ranker embeds of an article by default. */
const sentencesMax = 16;

/** Loads the model into this thread; gives what embeds a text as far as the ranker does. */
export async function openModel(): Promise<(text: string) => Promise<unknown>> {
  const file = pathToFileURL(join(root, 'apps/ranker/src/learn/thread/embedder.ts'));
  file.searchParams.set('folder', join(root, place));
  file.searchParams.set('precision', 'int8');
  const worker = (await import(file.href)) as EmbedderWorker;
  const resource = await worker.setup();
  const context = { resource, aborted: false, signal: new AbortController().signal };
  const dimension = await worker.dimension(undefined, context);
  return async (text) => {
    const begun = await worker.begin({ title: '', text, sentencesMax }, context);
    const { sentences, vectors } = begun.value;
    // The first ones have been embedded already.
    return await worker.embed(sentences.slice(vectors.length / dimension), context);
  };
}
