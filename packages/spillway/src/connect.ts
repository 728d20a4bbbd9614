export { admission, admitted, failures, type Middleware, type Next } from './adapter/connect.ts';
export { Listener, type ListenOptions } from './adapter/listener.ts';
export { type AdmissionOptions, signalOf } from './adapter/visit.ts';
