export { admission, admitted, failures } from './adapter/fetch.ts';
export { type AdmissionOptions, signalOf } from './adapter/visit.ts';
