// Preloaded by `npm run mutate`: modules get the text of a mutant in place of one file's.
import { readFileSync } from 'node:fs';
import { registerHooks } from 'node:module';
import { pathToFileURL } from 'node:url';

const { MUTANT_FILE = '', MUTANT_TEXT = '' } = process.env;
const url = pathToFileURL(MUTANT_FILE).href;

registerHooks({
  load(address, context, next) {
    const loaded = next(address, context);
    const [file] = address.split('?');
    return file === url ? { ...loaded, source: readFileSync(MUTANT_TEXT, 'utf8') } : loaded;
  },
});
