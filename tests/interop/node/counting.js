'use strict';
// A processor for KCL in Node.js as its documentation writes one: it notes what it gets, and checkpoints each batch.
const fs = require('fs');
const kcl = require('aws-kcl');
const note = (text) => fs.appendFileSync(process.env.NOTED, text + '\n');
kcl({
  initialize: (input, done) => { note('initialize ' + input.shardId + ' ' + input.sequenceNumber); done(); },
  processRecords: (input, done) => {
    for (const record of input.records) note('record ' + record.sequenceNumber + ' ' + Buffer.from(record.data, 'base64'));
    const last = input.records[input.records.length - 1];
    input.checkpointer.checkpoint(last.sequenceNumber, (error) => { note('checkpoint ' + (error || 'ok')); done(); });
  },
  leaseLost: (input, done) => { note('leaseLost'); done(); },
  shardEnded: (input, done) => { note('shardEnded'); input.checkpointer.checkpoint((error) => { note('end ' + (error || 'ok')); done(); }); },
  shutdownRequested: (input, done) => { note('shutdownRequested'); input.checkpointer.checkpoint((error) => done()); },
}).run();
