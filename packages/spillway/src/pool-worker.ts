import './pool/thread/entry.ts';
