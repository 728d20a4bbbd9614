import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const root = join(import.meta.dirname, '..', '..');
const place = 'apps/ranker/model';

/** The model that the ranker's own workers embed with, used in the same way. */
interface EmbedderWorker {
  setup(): Promise<unknown>;
  begin(
    input: { title: string; text: string; sentencesMax: number; groupSize: number },
    context: { resource: unknown; aborted: boolean; signal: AbortSignal },
  ): Promise<unknown>;
}

export const sentencesMax = 16;

/** Loads the model into this thread; gives what embeds a text with it, all in one call. */
export async function openModel(): Promise<(text: string) => Promise<unknown>> {
  const file = pathToFileURL(join(root, 'apps/ranker/src/learn/thread/embedder.ts'));
  file.searchParams.set('folder', join(root, place));
  file.searchParams.set('precision', 'int8');
  const worker = (await import(file.href)) as EmbedderWorker;
  const resource = await worker.setup();
  const context = { resource, aborted: false, signal: new AbortController().signal };
  const sizes = { sentencesMax, groupSize: sentencesMax };
  return (text) => worker.begin({ title: '', text, ...sizes }, context);
}
