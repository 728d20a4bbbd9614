type PatternName =
  | 'book'
  | 'githubRepo'
  | 'longWorkerName'
  | 'netName'
  | 'optionList'
  | 'runId'
  | 'shortWorkerName'
  | 'signature'
  | 'uniqueKey'
  | 'username';

/** Whole strings that a field may hold; `timeControlPattern` is kept with time controls. */
export const patterns: Readonly<Record<PatternName, RegExp>> = {
  book: /\.(epd|pgn)$/,
  githubRepo: /^https:\/\/(www\.)?github\.com\/[^/\s]+\/[^/\s]+$/,
  longWorkerName: /^[A-Za-z0-9]{2,}-\d+cores-[0-9a-zA-Z]{2,8}-[a-f0-9]{4}\*?$/,
  netName: /^nn-[a-f0-9]{12}\.nnue$/,
  optionList: /^([!-<>-~]+=[!-<>-~]+( [!-<>-~]+=[!-<>-~]+)*)?$/,
  runId: /^[0-9a-fA-F]{24}$/,
  shortWorkerName: /^[A-Za-z0-9]{2,}-\d+cores-[0-9a-zA-Z]{2,8}$/,
  signature: /^[1-9]\d*$/,
  uniqueKey: /^[0-9a-zA-Z]{2,8}(-[a-f0-9]{4}){3}-[a-f0-9]{12}$/,
  username: /^[A-Za-z0-9]{2,}$/,
};
