; Loaded once; then (whispertide_say FILE TEXT) for each sentence: writes its sound to FILE as 16-bit samples without a
; header, and prints the place of each of its words and its rate, or that it failed.

; HTS sets the times in its engine; the diphone voice by its duration model. Both leave them with the segments.
(define (whispertide_say file text)
  (begin
    (unwind-protect
      (let ((utt (utt.synth (eval (list 'Utterance 'Text text)))))
        (utt.save.wave utt file 'raw)
        (whispertide_tokens utt)
        (format t "said %d\n" (cadr (assoc 'sample_rate (wave.info (utt.wave utt))))))
      (format t "failed\n"))
    (fflush nil)))

; One line per written token: "token", then first and last second of each of its words.
(define (whispertide_tokens utt)
  (let ((token (utt.relation.first utt 'Token)))
    (while token
      (format t "token")
      (mapcar
        (lambda (word) (format t " %f %f" (item.feat word "word_start") (item.feat word "word_end")))
        (item.relation.daughters token 'Token))
      (format t "\n")
      (set! token (item.next token)))))

; CHOICE chooses a voice; it fails where that is not installed.
(define (whispertide_voice choice)
  (begin
    (unwind-protect (begin (eval choice) (format t "ready\n")) (format t "failed\n"))
    (fflush nil)))

; RATE and PITCH are factors on the voice's own.
(define (whispertide_kdl rate pitch)
  (voice_ked_diphone)
  (Parameter.set 'Duration_Stretch (/ 1.1 rate))
  (set! int_lr_params
    (list (list 'target_f0_mean (* 105 pitch)) '(target_f0_std 15) '(model_f0_mean 170) '(model_f0_std 34))))

; hts_engine as Festival has it takes no pitch.
(define (whispertide_slt rate)
  (voice_cmu_us_slt_arctic_hts)
  (set! hts_engine_params (append cmu_us_slt_arctic_hts::hts_engine_params (list (list "-r" rate)))))
