export { addressKey } from './address-key.ts';
export { type AssetsOptions, assets } from './assets.ts';
export type { Channel, ChannelListener } from './channel.ts';
export { type Download, download } from './download.ts';
export { type HttpErrorCode, httpError, httpErrorCodes } from './errors.ts';
export { fileDownload, pathInside } from './files.ts';
export type { BroadcastResult } from './hub-broadcast.ts';
export type { FanOutStats } from './hub-fan-out.ts';
export type { SlowPolicy, WebSocketHubOptions } from './hub-options.ts';
export type { HubSocket, SocketEnd, SocketHandlers } from './hub-socket.ts';
export type { Piece, PieceSource } from './piece-stream.ts';
export { type SocketMessage, socketFrame } from './socket-frame.ts';
export { StoreChannel, type StoreChannelOptions, type StoreChannelStats } from './store-channel.ts';
export { type Received, type ReceiveOptions, receive } from './upload.ts';
export {
  type FormFile,
  type ReceivedForm,
  type ReceiveFormOptions,
  receiveForm,
  uploads,
} from './uploads.ts';
export { type SocketRoute, WebSocketHub, type WebSocketHubStats } from './web-socket-hub.ts';
