// What the sibling packages and the services build on. Not part of the public interface: it may
// change in any release.

export { untilAborted } from './base/abort.ts';
export { check, checkInteger, checkNumber } from './base/check.ts';
export { type ErrorMaker, errorCodes, errorMaker } from './base/errors.ts';
export { inDoubt } from './base/in-doubt.ts';
export { HarvestLimit } from './harvest/limit.ts';
export { Histogram } from './meter/histogram.ts';
export {
  type Committed,
  type Decision,
  type Sighting,
  StoreLink,
  type Updated,
} from './shared/store-link.ts';
export { checkStoreChanges, checkStoreNames, jsonText } from './store/store.ts';
export { nextTurn } from './wait/turn.ts';
